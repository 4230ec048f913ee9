// FixedOrderOp: combines in a fixed order, using messages.
//
// Every rank receives all p contributions to its block unchanged (an all-to-all), combines them by the tree over ranks,
// and the blocks are gathered. (p-1)/p n bytes in each direction, as much as a ring; p-1 more messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/indexed_vector.h"
#include "comm/op/op.h"
#include "comm/op/scratch.h"
#include "comm/scheduled/context.h"
#include "comm/scheduled/scheduled.h"
#include "comm/wire/geometry.h"
#include "comm/wire/record.h"

namespace trireme::comm {

class FixedOrderOp : public Op {
 public:
  /// All arguments and the call's buffers must live until it is done.
  FixedOrderOp(const ScheduledContext& context, const Call& call, const Geometry& geometry,
               const Record& record);

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override { op_->check(stuck); }
  void expire(Seconds stuck) override { op_->expire(stuck); }

 private:
  [[nodiscard]] Rank size() const { return context_.op.members.size(); }
  [[nodiscard]] std::vector<std::int64_t> block_counts() const;
  void exchange();
  void combine();
  void gather();

  const ScheduledContext& context_;
  const Call& call_;
  const Geometry& geometry_;
  const Record& record_;
  Scratch scratch_;
  IndexedVector<Rank, std::int64_t> counts_;
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

}  // namespace trireme::comm
