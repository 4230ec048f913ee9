// Exchange: a communication op on device memory. The device prepares it, as it prepares kernels: with a library that
// moves device memory between ranks, or staged through host memory and `comm`.
//
// One thread at a time.
#pragma once

#include <memory>

#include "trireme/communicator.h"
#include "trireme/kernel.h"
#include "trireme/stream.h"
#include "trireme/units.h"

namespace trireme {

namespace runtime {
class StagingQueue;
}

class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Starts it after the work enqueued on `compute` so far; it overlaps with later work. Nothing may touch its operands
  /// until finish(). Ranks start the exchanges of a group in the same order.
  virtual void start(Stream& compute) = 0;
  /// Work enqueued on `compute` after this call sees the result. May block the host until the other ranks have done
  /// their part. Throws CommError.
  virtual void finish(Stream& compute) = 0;
};

/// A connection between ranks through a library that moves device memory. Its operations wait for other ranks on the
/// device, where errors cannot interrupt them, so wait for a step with wait().
class ExchangeSession {
 public:
  ExchangeSession() = default;
  virtual ~ExchangeSession() = default;
  ExchangeSession(const ExchangeSession&) = delete;
  ExchangeSession& operator=(const ExchangeSession&) = delete;

  /// Collective: returns when the work enqueued on `compute` is done on all ranks. Throws CommError if a rank failed.
  virtual void wait(Stream& compute) = 0;
  /// After a failed step: permanently aborts operations that wait for other ranks.
  virtual void abort() noexcept = 0;
};

/// Resources shared by the exchanges of one execution. All of them outlive the exchanges.
struct ExchangeContext {
  Communicator& communicator;
  Stream& stream;                  ///< for packing and copying, concurrent with the compute stream
  runtime::StagingQueue& staging;  ///< for exchanges staged through host memory
  ExchangeSession* session;        ///< from Device::connect(); may be null
};

/// An exchange before its operands have addresses.
class PreparedExchange {
 public:
  PreparedExchange() = default;
  virtual ~PreparedExchange() = default;
  PreparedExchange(const PreparedExchange&) = delete;
  PreparedExchange& operator=(const PreparedExchange&) = delete;
  /// Required scratch memory on the context's stream; shared by all exchanges, but not with kernels.
  [[nodiscard]] virtual Bytes workspace() const { return {}; }
  [[nodiscard]] virtual std::unique_ptr<Exchange> bind(const KernelMemory& memory,
                                                       const ExchangeContext& context) = 0;
};

}  // namespace trireme
