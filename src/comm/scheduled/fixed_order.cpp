#include "comm/scheduled/fixed_order.h"

#include "comm/kernels/kernels.h"

namespace trireme::comm {

FixedOrderOp::FixedOrderOp(const ScheduledContext& context, const Call& call,
                           const Geometry& geometry, const Record& record)
    : context_(context),
      call_(call),
      geometry_(geometry),
      record_(record),
      scratch_(context.op.scratch),
      counts_(call.operation == Operation::ReduceScatter ? block_counts()
                                                         : even_counts(geometry.count, size())),
      mine_(counts_[context.op.members.rank()]) {
  exchange();
}

Progress FixedOrderOp::advance() {
  const Progress progress = op_->advance();
  if (progress != Progress::Done || gathering_) {
    return progress;
  }
  combine();
  if (call_.operation == Operation::ReduceScatter) {
    return Progress::Done;
  }
  gather();
  return Progress::Moved;
}

std::vector<std::int64_t> FixedOrderOp::block_counts() const {
  std::vector<std::int64_t> counts;
  counts.reserve(size());
  for (Rank r = 0; r < size(); ++r) {
    counts.push_back(geometry_.block(r).length);
  }
  return counts;
}

/// Starts collecting all contributions to this rank's block.
void FixedOrderOp::exchange() {
  const std::size_t ranks = size();
  const std::size_t bytes = mine_ * geometry_.element_bytes;
  std::byte* contributions = scratch_.get(bytes * ranks);
  inputs_.reserve(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    inputs_.push_back(contributions + r * bytes);
  }
  exchange_ = {.operation = Operation::Alltoall,
               .dtype = call_.dtype,
               .input = call_.input,
               .output = {contributions, bytes * ranks},
               .counts = counts_.items(),
               .receive_counts = std::vector<std::int64_t>(ranks, mine_)};
  exchange_geometry_ = make_geometry(exchange_, context_.op.members.rank(), size());
  block_ = call_.operation == Operation::ReduceScatter ? call_.output.data() : scratch_.get(bytes);
  op_ = std::make_unique<ScheduledOp>(
      context_, exchange_, exchange_geometry_, record_,
      context_.schedules.get(Operation::Alltoall, Algorithm::Pairwise, 0, 1));
}

void FixedOrderOp::combine() {
  const Combine how{.dtype = call_.dtype,
                    .reduction = call_.options.reduction,
                    .user = call_.options.user,
                    .order = Order::Fixed,
                    .divide_by = divisor(call_.options, size())};
  const std::vector<std::byte*> targets{block_};
  combine_many(how, inputs_, targets, mine_, Stores::Cached);
}

void FixedOrderOp::gather() {
  const bool to_all = call_.operation == Operation::Allreduce;
  gather_ = {.operation = to_all ? Operation::Allgather : Operation::Gather,
             .dtype = call_.dtype,
             .root = call_.root,
             .input = {block_, static_cast<std::size_t>(mine_ * geometry_.element_bytes)},
             .output = call_.output,
             .counts = counts_.items()};
  gather_geometry_ = make_geometry(gather_, context_.op.members.rank(), size());
  op_ = std::make_unique<ScheduledOp>(
      context_, gather_, gather_geometry_, record_,
      context_.schedules.get(gather_.operation, to_all ? Algorithm::Ring : Algorithm::Flat,
                             to_all ? 0 : call_.root, 1),
      1);
  gathering_ = true;
}

}  // namespace trireme::comm
