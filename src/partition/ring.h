// Ring execution: a node one of whose factors is sharded by an axis and taken in turn, such as attention over KV shards
// that circulate in a ring of ranks (Liu et al., Ring Attention, 2023). Callable from any thread.
//
// Each of the p ranks along the axis starts with its own part of the factor. At time s it has the part of the rank s
// places before it, receives the next from its predecessor, sends the current one to its successor, and
// computes with it at the same time:
//
//   time        0       1       2          parts at three ranks
//   rank 0      0       2       1
//   rank 1      1       0       2
//   rank 2      2       1       0
//
// Results in which the factor does not appear are merged step by step, by the op's merge. Those in which it does, the
// gradients of keys, are sums over the ranks: each follows its part, is added to, and finally returns to its owner.
//
//   communication: p - 1 parts of each operand out and in, and p of each such result
//
// At any time a rank has two parts of each operand, and up to four of each result that circulates. Under a causal mask
// the ring would leave the first ranks idle; causal_ring.h divides the work evenly instead.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/ring_op.h"

namespace trireme::partition {

/// Adds all nodes of the rank and returns the results, as the node has them. Messages have tags starting at `tag`,
/// which advances equally on all ranks of the axis.
[[nodiscard]] std::vector<ValueId> add_ring(GraphBuilder& builder, const Ring& ring,
                                            std::span<const ValueId> inputs, std::int64_t& tag);

}  // namespace trireme::partition
