// An exchange with other ranks, made ready for operands at fixed places in this host's memory. One thread at a
// time.
#pragma once

#include <memory>

#include "trireme/communicator.h"
#include "trireme/device.h"

namespace trireme::runtime {

class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Begins it; goes on by itself. The operands stay as they are until finish().
  virtual void start() = 0;
  /// Returns when the result is there. Throws CommError.
  virtual void finish() = 0;
};

/// Throws Error(Usage) if the op is no exchange.
[[nodiscard]] std::unique_ptr<Exchange> make_exchange(const KernelRequest& request,
                                                      const KernelMemory& memory,
                                                      Communicator& communicator);

}  // namespace trireme::runtime
