// Collectives by cudaIpc; see ipc_session.h.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/ipc_session.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/rank_reduction.h"
#include "runtime/staging_queue.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

/// What a rank reads, in bytes, by the rank it reads from; and where the others find their blocks.
struct ReadPlan {
  std::array<std::int64_t, kMaxIpcRanks> blocks{};  ///< of this rank's source, by reader
  std::vector<std::int64_t> lengths{};              ///< to copy; empty: blocks are combined
  std::vector<std::int64_t> targets{};              ///< where the copies begin
  std::int64_t combined = 0;                        ///< elements of each rank to combine
};

/// Where blocks of these sizes begin.
std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> begins(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), std::int64_t{0});
  return begins;
}

std::vector<std::int64_t> in_bytes(std::vector<std::int64_t> elements, DType dtype) {
  for (std::int64_t& count : elements) {
    count *= size_of(dtype).count;
  }
  return elements;
}

ReadPlan read_plan(const Call& call, Bytes source, Rank rank) {
  const std::vector<std::int64_t> counts = in_bytes(call.counts, call.dtype);
  const std::vector<std::int64_t> received = in_bytes(call.receive_counts, call.dtype);
  ReadPlan plan;
  switch (call.operation) {
    case Operation::Allreduce:
      plan.combined = source.count / size_of(call.dtype).count;
      return plan;
    case Operation::ReduceScatter:
      plan.combined = call.counts[rank];
      std::ranges::copy(begins_of(counts), plan.blocks.begin());
      return plan;
    case Operation::Allgather:
      plan.lengths = counts;
      plan.targets = begins_of(counts);
      return plan;
    default:  // all-to-all
      plan.lengths = received;
      plan.targets = begins_of(received);
      std::ranges::copy(begins_of(counts), plan.blocks.begin());
      return plan;
  }
}

class IpcExchange : public Exchange {
 public:
  IpcExchange(const Call& call, runtime::BoundOperands operands, IpcSession& session, IpcAxis& axis,
              Device& device, const ExchangeContext& context)
      : operands_(std::move(operands)),
        plan_(read_plan(call, operands_.source_size, axis.group().rank())),
        session_(session),
        axis_(axis),
        stream_(context.stream),
        staging_(context.staging),
        computed_(device.make_event()),
        received_(device.make_event()),
        messages_(static_cast<std::size_t>(axis.group().size())) {
    if (plan_.lengths.empty()) {
      reduction_ = rank_reduction(call.dtype, call.options.reduction, plan_.combined);
    }
    work_.ready = device.make_event();
    work_.start = [this] { return tell_others(); };
  }

  void start(Stream& compute) override {
    turn_ = axis_.begin(operands_.source_size);
    mine_ = {.source = turn_.memory->name(), .blocks = plan_.blocks, .finished = turn_.finished};
    compute.record(*computed_);
    stream_.wait(*computed_);
    operands_.pack.enqueue(stream_);
    stream_.copy(turn_.memory->data(),
                 {operands_.source, static_cast<std::size_t>(operands_.source_size.count)});
    stream_.record(*work_.ready);
    staging_.add(work_);
  }

  void finish(Stream& compute) override {
    staging_.wait(work_);
    if (reduction_) {
      reduction_->enqueue({.inputs = blocks(), .outputs = {operands_.target}}, handle_of(stream_));
    } else {
      copy_blocks();
    }
    axis_.end(turn_, messages_);
    operands_.unpack.enqueue(stream_);
    stream_.record(*received_);
    compute.wait(*received_);
  }

 private:
  [[nodiscard]] Pending tell_others() {
    Call call;
    call.operation = Operation::Allgather;
    call.input = std::as_bytes(std::span(&mine_, 1));
    call.output = std::as_writable_bytes(std::span(messages_));
    return axis_.group().start(call);
  }

  /// This rank's block of every rank's source.
  [[nodiscard]] std::vector<const std::byte*> blocks() {
    std::vector<const std::byte*> addresses;
    for (std::size_t rank = 0; rank < messages_.size(); ++rank) {
      const IpcMessage& message = messages_[rank];
      addresses.push_back(session_.source_of(axis_, rank, turn_, message) +
                          message.blocks[axis_.group().rank()]);
    }
    return addresses;
  }

  void copy_blocks() {
    const std::vector<const std::byte*> from = blocks();
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      if (plan_.lengths[rank] > 0) {
        stream_.copy(operands_.target + plan_.targets[rank],
                     {from[rank], static_cast<std::size_t>(plan_.lengths[rank])});
      }
    }
  }

  runtime::BoundOperands operands_;
  ReadPlan plan_;
  std::optional<Launch> reduction_{};
  IpcSession& session_;
  IpcAxis& axis_;
  Stream& stream_;
  runtime::StagingQueue& staging_;
  std::unique_ptr<Event> computed_;  ///< start(), on the compute stream
  std::unique_ptr<Event> received_;  ///< finish(), on the exchange stream
  runtime::StagingQueue::Operation work_;
  IpcAxis::Turn turn_{};
  IpcMessage mine_{};
  std::vector<IpcMessage> messages_;  ///< by rank of the axis
};

}  // namespace

std::unique_ptr<Exchange> IpcSession::bind(const runtime::CollectiveCall& collective,
                                           runtime::BoundOperands operands, Device& device,
                                           const ExchangeContext& context) {
  IpcAxis& axis = axes_.find(collective.axis)->second;
  if (axis.group().size() > static_cast<Rank>(kMaxIpcRanks)) {
    throw Error(ErrorKind::Usage,
                fmt::format("cudaIpc: {} has {} ranks, more than {}; use --gpu-exchange host",
                            collective.axis, axis.group().size(), kMaxIpcRanks));
  }
  return std::make_unique<IpcExchange>(collective.call, std::move(operands), *this, axis, device,
                                       context);
}

}  // namespace trireme::cuda
