// make_op: the operation that does a call.
#pragma once

#include <memory>

#include "comm/op/op.h"
#include "comm/scheduled/context.h"
#include "comm/wire/geometry.h"
#include "comm/wire/record.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

/// An operation that does the call by the record's method, which must be able to. All arguments must
/// live until it is done.
[[nodiscard]] std::unique_ptr<Op> make_op(const ScheduledContext& context, const Call& call,
                                          const Geometry& geometry, const Record& record);

}  // namespace trireme::comm
