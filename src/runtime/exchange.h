// A communication op, prepared for operands at fixed addresses in this host's memory. One thread at a time.
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

  /// Starts it; it proceeds in the background. Do not touch the operands until finish().
  virtual void start() = 0;
  /// Returns when the result is ready. Throws CommError.
  virtual void finish() = 0;
};

/// Throws Error(Usage) if the op does not communicate.
[[nodiscard]] std::unique_ptr<Exchange> make_exchange(const KernelRequest& request,
                                                      const KernelMemory& memory,
                                                      Communicator& communicator);

}  // namespace trireme::runtime
