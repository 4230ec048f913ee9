// make_op: creates the operation that executes a call.
#pragma once

#include <memory>

#include "comm/op/op.h"
#include "comm/scheduled/context.h"
#include "comm/wire/geometry.h"
#include "comm/wire/record.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

/// Uses the record's method, which must support the call. All arguments must live until the operation is done.
[[nodiscard]] std::unique_ptr<Op> make_op(const ScheduledContext& context, const Call& call,
                                          const Geometry& geometry, const Record& record);

}  // namespace trireme::comm
