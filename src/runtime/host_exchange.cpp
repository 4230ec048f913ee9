#include "runtime/host_exchange.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/bound_operands.h"
#include "runtime/staging_queue.h"
#include "tensor/container_size.h"

namespace trireme::runtime {
namespace {

class InPlaceExchange final : public Exchange {
 public:
  InPlaceExchange(BoundOperands operands, StartOnHost operation)
      : operands_(std::move(operands)), operation_(std::move(operation)) {}

  void start(Stream& compute) override {
    operands_.pack.enqueue(compute);
    pending_ = operation_({operands_.source, container_size(operands_.source_size)},
                          {operands_.target, container_size(operands_.target_size)});
  }
  void finish(Stream& compute) override {
    pending_.wait();
    operands_.unpack.enqueue(compute);
  }

 private:
  BoundOperands operands_;
  StartOnHost operation_;
  Pending pending_;
};

class StagedExchange final : public Exchange {
 public:
  StagedExchange(BoundOperands operands, bool in_place, StartOnHost operation, Device& device,
                 const ExchangeContext& context)
      : operands_(std::move(operands)),
        in_place_(in_place),
        stream_(context.stream),
        staging_(context.staging),
        computed_(device.make_event()),
        received_(device.make_event()) {
    work_.ready = device.make_event();
    work_.start = [this, run = std::move(operation)] { return run(host_source(), host_target()); };
  }

  void start(Stream& compute) override {
    if (!memory_) {  // else: the last step failed before finish()
      memory_ = staging_.acquire(host_size());
    }
    compute.record(*computed_);
    if (operands_.source != nullptr) {
      stream_.wait(*computed_);
      operands_.pack.enqueue(stream_);
      stream_.copy_out(host_source(), operands_.source);
    }
    stream_.record(*work_.ready);
    staging_.add(work_);
  }

  void finish(Stream& compute) override {
    staging_.wait(work_);
    if (operands_.target != nullptr) {
      stream_.wait(*computed_);  // kernels before start() may still use the target's memory
      stream_.copy_in(operands_.target, host_target());
      operands_.unpack.enqueue(stream_);
      stream_.record(*received_);
      compute.wait(*received_);
    }
    staging_.release(std::move(memory_));
  }

 private:
  [[nodiscard]] Bytes host_size() const {
    const std::int64_t source = operands_.source_size.count;
    const std::int64_t target = operands_.target_size.count;
    return {in_place_ ? std::max(source, target) : source + target};
  }
  [[nodiscard]] std::span<std::byte> host_source() const {
    return memory_->bytes().first(container_size(operands_.source_size));
  }
  [[nodiscard]] std::span<std::byte> host_target() const {
    const std::size_t begin = in_place_ ? 0 : container_size(operands_.source_size);
    return memory_->bytes().subspan(begin, container_size(operands_.target_size));
  }

  BoundOperands operands_;
  bool in_place_;
  Stream& stream_;
  StagingQueue& staging_;
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<Event> computed_;  ///< start(), on the compute stream
  std::unique_ptr<Event> received_;  ///< finish(), on the exchange stream
  StagingQueue::Operation work_;     ///< refers to memory_, which it must not outlive
};

class PreparedHostExchange : public PreparedExchange {
 public:
  enum class Memory : std::uint8_t { InPlace, Staged };

  PreparedHostExchange(const KernelRequest& request, Device& device, Memory memory)
      : request_(request),
        layout_(layout_of(request)),
        packing_(layout_, device),
        device_(device),
        memory_(memory) {}

  [[nodiscard]] Bytes workspace() const override { return packing_.workspace(); }
  [[nodiscard]] std::unique_ptr<Exchange> bind(const KernelMemory& memory,
                                               const ExchangeContext& context) override {
    BoundOperands operands = bind_operands(layout_, packing_, memory);
    StartOnHost operation = operation_of(request_, context.communicator);
    if (memory_ == Memory::InPlace) {
      return std::make_unique<InPlaceExchange>(std::move(operands), std::move(operation));
    }
    return std::make_unique<StagedExchange>(std::move(operands), layout_.in_place,
                                            std::move(operation), device_, context);
  }

 private:
  KernelRequest request_;
  ExchangeLayout layout_;
  Packing packing_;
  Device& device_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<PreparedExchange> prepare_in_place(const KernelRequest& request, Device& device) {
  return std::make_unique<PreparedHostExchange>(request, device,
                                                PreparedHostExchange::Memory::InPlace);
}

std::unique_ptr<PreparedExchange> prepare_staged(const KernelRequest& request, Device& device) {
  return std::make_unique<PreparedHostExchange>(request, device,
                                                PreparedHostExchange::Memory::Staged);
}

}  // namespace trireme::runtime
