// make_op: the operation that does a call; and combining in a fixed order by messages.
//
// Fixed order: every rank gets all p contributions to its block, unchanged (an exchange of pairs),
// combines them by the tree over ranks, and the blocks are gathered. (p-1)/p n bytes each way, as much
// as a ring; p-1 messages more.
#pragma once

#include <memory>

#include "comm/group/group_core.h"
#include "comm/op/op.h"
#include "comm/wire/geometry.h"
#include "comm/wire/record.h"

namespace trireme::comm {

/// Throws Error(Usage) if the method cannot do the call.
void require_possible(GroupCore& group, const Call& call, const Geometry& geometry,
                      const Method& method);

/// What does the call, by the record's method. All arguments must live until it is done. Requires
/// that it is possible.
[[nodiscard]] std::unique_ptr<Op> make_op(GroupCore& group, const Call& call,
                                          const Geometry& geometry, const Record& record);

}  // namespace trireme::comm
