#include "comm/group/make_op.h"

#include <vector>

#include <fmt/format.h>

#include "comm/direct/direct.h"
#include "comm/op/scratch.h"
#include "comm/scheduled/scheduled.h"
#include "comm/world/world_core.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

class FixedOrderOp : public Op {
 public:
  FixedOrderOp(GroupCore& group, const Call& call, const Geometry& geometry, const Record& record)
      : group_(group),
        call_(call),
        geometry_(geometry),
        record_(record),
        scratch_(group.world().scratch()) {
    const Rank ranks = group.size();
    counts_ = call.operation == Operation::ReduceScatter ? block_counts()
                                                         : even_counts(geometry.count, ranks);
    mine_ = counts_[static_cast<std::size_t>(group.rank())];
    const auto bytes = static_cast<std::size_t>(mine_ * geometry.element_bytes);
    std::byte* contributions = scratch_.get(bytes * static_cast<std::size_t>(ranks));
    inputs_.reserve(static_cast<std::size_t>(ranks));
    for (Rank r = 0; r < ranks; ++r) {
      inputs_.push_back(contributions + static_cast<std::size_t>(r) * bytes);
    }
    exchange_ = {
        .operation = Operation::Alltoall,
        .dtype = call.dtype,
        .input = call.input,
        .output = {contributions, bytes * static_cast<std::size_t>(ranks)},
        .counts = counts_,
        .receive_counts = std::vector<std::int64_t>(static_cast<std::size_t>(ranks), mine_)};
    exchange_geometry_ = make_geometry(exchange_, group.rank(), ranks);
    block_ = call.operation == Operation::ReduceScatter ? call.output.data() : scratch_.get(bytes);
    op_ = std::make_unique<ScheduledOp>(
        group, exchange_, exchange_geometry_, record,
        group.schedule(Operation::Alltoall, Algorithm::Pairwise, 0, 1));
  }

  [[nodiscard]] Progress advance() override {
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
  void check(Seconds stuck) override { op_->check(stuck); }
  void expire(Seconds stuck) override { op_->expire(stuck); }

 private:
  [[nodiscard]] std::vector<std::int64_t> block_counts() const {
    std::vector<std::int64_t> counts;
    counts.reserve(static_cast<std::size_t>(group_.size()));
    for (Rank r = 0; r < group_.size(); ++r) {
      counts.push_back(geometry_.block(r).length);
    }
    return counts;
  }

  void combine() {
    const Combine how{.dtype = call_.dtype,
                      .reduction = call_.options.reduction,
                      .user = call_.options.user,
                      .order = Order::Fixed,
                      .divide_by = divisor(call_.options, group_.size())};
    const std::vector<std::byte*> targets{block_};
    combine_many(how, inputs_, targets, mine_, Stores::Cached);
  }

  void gather() {
    const bool to_all = call_.operation == Operation::Allreduce;
    gather_ = {.operation = to_all ? Operation::Allgather : Operation::Gather,
               .dtype = call_.dtype,
               .root = call_.root,
               .input = {block_, static_cast<std::size_t>(mine_ * geometry_.element_bytes)},
               .output = call_.output,
               .counts = counts_};
    gather_geometry_ = make_geometry(gather_, group_.rank(), group_.size());
    op_ = std::make_unique<ScheduledOp>(
        group_, gather_, gather_geometry_, record_,
        group_.schedule(gather_.operation, to_all ? Algorithm::Ring : Algorithm::Flat,
                        to_all ? 0 : call_.root, 1),
        1);
    gathering_ = true;
  }

  GroupCore& group_;
  const Call& call_;
  const Geometry& geometry_;
  const Record& record_;
  Scratch scratch_;
  std::vector<std::int64_t> counts_;
  std::int64_t mine_ = 0;
  std::vector<const std::byte*> inputs_;
  std::byte* block_ = nullptr;
  Call exchange_{};
  Call gather_{};
  Geometry exchange_geometry_{};
  Geometry gather_geometry_{};
  std::unique_ptr<ScheduledOp> op_;
  bool gathering_ = false;
};

/// Throws unless the schedule can carry blocks of these sizes.
void require_sizes(const Call& call, const Geometry& geometry, const Schedule& schedule) {
  const bool splits = geometry.form != Form::Blocks || schedule.blocks % schedule.ranks == 0;
  const bool passes_on = !geometry.received.empty() && schedule.algorithm != "pairwise" &&
                         schedule.algorithm != "flat" && schedule.ranks > 1;
  if (!splits || passes_on) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} by {} cannot have blocks of different sizes; leave the method open",
                            name(call.operation), schedule.algorithm));
  }
}

}  // namespace

namespace {

const Schedule& schedule_for(GroupCore& group, const Call& call, const Geometry& geometry,
                             Algorithm algorithm) {
  return group.schedule(call.operation, algorithm, has_root(call.operation) ? call.root : 0,
                        group.segments(call.operation, algorithm, geometry.bytes()));
}

}  // namespace

void require_possible(GroupCore& group, const Call& call, const Geometry& geometry,
                      const Method& method) {
  if (method.kind == Method::Kind::Scheduled) {
    require_sizes(call, geometry, schedule_for(group, call, geometry, method.algorithm));
  }
}

std::unique_ptr<Op> make_op(GroupCore& group, const Call& call, const Geometry& geometry,
                            const Record& record) {
  if (record.method == Method::Kind::Direct) {
    return std::make_unique<DirectOp>(group, call, geometry, record);
  }
  if (record.order == Order::Fixed && group.size() > 1) {
    return std::make_unique<FixedOrderOp>(group, call, geometry, record);
  }
  return std::make_unique<ScheduledOp>(group, call, geometry, record,
                                       schedule_for(group, call, geometry, record.algorithm));
}

}  // namespace trireme::comm
