// StagingQueue: operations of `comm` that wait for a device. Their operands are copied to host memory on a stream; each
// starts when its copy is done, in the order of the program, which is the same on all ranks. The host thread drives it:
// there is no thread behind it.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "trireme/comm.h"
#include "trireme/device.h"

namespace trireme::runtime {

class StagingQueue {
 public:
  /// The device must outlive the queue.
  explicit StagingQueue(Device& device) : device_(device) {}

  /// One operation: `ready` is recorded when its operands are in host memory.
  struct Operation {
    std::unique_ptr<Event> ready;
    std::function<Pending()> start;
    Pending pending{};
    bool started = false;
  };

  /// Starts the operation when it is ready and all before it have started. It must live until wait() returns.
  void add(Operation& operation);
  /// Starts the operations that are ready. Does not block.
  void poll();
  /// Returns when the operation, which was added, is complete. Throws its error.
  void wait(Operation& operation);
  /// Forgets operations that have not started, after a step that failed.
  void clear() { waiting_.clear(); }

  /// Host memory of at least this size, from a pool: after the first step nothing is allocated. Earlier copies may
  /// still read released memory; the next owner uses it on the same stream.
  [[nodiscard]] std::unique_ptr<HostMemory> acquire(Bytes bytes);
  void release(std::unique_ptr<HostMemory> memory);

 private:
  static void start(Operation& operation);

  Device& device_;
  std::deque<Operation*> waiting_;  ///< not started; owned by their exchanges
  std::multimap<std::size_t, std::unique_ptr<HostMemory>> free_;  ///< by size
};

}  // namespace trireme::runtime
