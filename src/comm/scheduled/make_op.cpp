#include "comm/scheduled/make_op.h"

#include "comm/direct/direct.h"
#include "comm/scheduled/fixed_order.h"
#include "comm/scheduled/scheduled.h"

namespace trireme::comm {

std::unique_ptr<Op> make_op(const ScheduledContext& context, const Call& call,
                            const Geometry& geometry, const Record& record) {
  if (record.method == Method::Kind::Direct) {
    return std::make_unique<DirectOp>(*context.direct, call, geometry, record);
  }
  if (record.order == Order::Fixed && context.op.members.size() > 1) {
    return std::make_unique<FixedOrderOp>(context, call, geometry, record);
  }
  return std::make_unique<ScheduledOp>(
      context, call, geometry, record,
      context.schedules.for_call(call, geometry, record.algorithm));
}

}  // namespace trireme::comm
