// Exchange: a communication op on a device's memory. The device prepares it, as it prepares kernels: by a library that
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

  /// Starts it after what is enqueued on `compute` so far; it overlaps with what is enqueued later. Nothing may touch
  /// its operands until finish(). Ranks start the exchanges of a group in the same order.
  virtual void start(Stream& compute) = 0;
  /// What is enqueued on `compute` from here on sees the result. May block the host until the other ranks have done
  /// their part. Throws CommError.
  virtual void finish(Stream& compute) = 0;
};

/// Ranks connected by a library that moves device memory between them. Its operations wait for the other ranks on the
/// device, where no error ends them: whoever waits for a step waits here.
class ExchangeSession {
 public:
  ExchangeSession() = default;
  virtual ~ExchangeSession() = default;
  ExchangeSession(const ExchangeSession&) = delete;
  ExchangeSession& operator=(const ExchangeSession&) = delete;

  /// Collective: returns when what was enqueued on `compute` is done on all ranks. Throws CommError if one failed.
  virtual void wait(Stream& compute) = 0;
  /// After a step that failed: ends the operations that wait for other ranks, for good.
  virtual void abort() noexcept = 0;
};

/// What the exchanges of one execution share. All of it outlives them.
struct ExchangeContext {
  Communicator& communicator;
  Stream& stream;                  ///< for packing and copying beside the compute stream
  runtime::StagingQueue& staging;  ///< for those that are staged through host memory
  ExchangeSession* session;        ///< from Device::connect(); may be none
};

/// An exchange before its operands have addresses.
class PreparedExchange {
 public:
  PreparedExchange() = default;
  virtual ~PreparedExchange() = default;
  PreparedExchange(const PreparedExchange&) = delete;
  PreparedExchange& operator=(const PreparedExchange&) = delete;
  /// Scratch memory that it needs on the context's stream, shared by all exchanges but not with kernels.
  [[nodiscard]] virtual Bytes workspace() const { return {}; }
  [[nodiscard]] virtual std::unique_ptr<Exchange> bind(const KernelMemory& memory,
                                                       const ExchangeContext& context) = 0;
};

}  // namespace trireme
