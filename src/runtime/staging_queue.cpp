#include "runtime/staging_queue.h"

#include <utility>

#include "tensor/container_size.h"

namespace trireme::runtime {
namespace {

/// How long the host waits for an operation before it looks whether others have become ready.
constexpr Seconds kPollInterval{50e-6};

}  // namespace

void StagingQueue::start(Operation& operation) {
  operation.pending = operation.start();
  operation.started = true;
}

void StagingQueue::add(Operation& operation) {
  operation.started = false;
  waiting_.push_back(&operation);
  poll();
}

void StagingQueue::poll() {
  while (!waiting_.empty() && waiting_.front()->ready->done()) {
    Operation& next = *waiting_.front();
    waiting_.pop_front();
    start(next);
  }
}

void StagingQueue::wait(Operation& operation) {
  while (!operation.started) {
    waiting_.front()->ready->wait();
    poll();
  }
  while (!operation.pending.wait(waiting_.empty() ? Seconds{1} : kPollInterval)) {
    poll();
  }
}

std::unique_ptr<HostMemory> StagingQueue::acquire(Bytes bytes) {
  const auto it = free_.lower_bound(container_size(bytes));
  if (it == free_.end()) {
    return device_.allocate_host(bytes);
  }
  return std::move(free_.extract(it).mapped());
}

void StagingQueue::release(std::unique_ptr<HostMemory> memory) {
  const std::size_t size = memory->bytes().size();
  free_.emplace(size, std::move(memory));
}

}  // namespace trireme::runtime
