// A node one of whose factors is cut by an axis and taken in turn: attention to blocks of keys that go round a ring of
// ranks (Liu et al., Ring Attention, 2023). Any thread.
//
// Of p ranks along the axis, each begins with its own part of the factor. At time s it has the part of the rank s
// places before it, gets the next from its predecessor, hands on the present one to its successor, and meanwhile
// computes with the present one:
//
//   time        0       1       2          parts at three ranks
//   rank 0      0       2       1
//   rank 1      1       0       2
//   rank 2      2       1       0
//
// Results in which the factor does not stand are merged as they come, by the op's row. Those in which it does, the
// gradients of keys, are sums over the ranks: each goes along behind its part, is added to, and at last goes home.
//
//   exchanges: p - 1 parts of each operand out and in, and p of each such result
//
// A part goes no further than to the last rank that has work with it: under a causal mask, part j to the ranks behind
// j only. At any time a rank has two parts of each operand, and up to four of each result that goes along.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/op.h"
#include "trireme/graph.h"
#include "trireme/placement.h"

namespace trireme::partition {

/// The factor that is cut, by one axis, and taken in turn; -1 if none is.
[[nodiscard]] int find_ring(const Factors& factors, std::span<const Placement::Dim> cuts);

struct Ring {
  Signature whole{};
  std::size_t factor = 0;  ///< that is taken in turn
  /// By place along the axis, what the rank there has of each factor.
  std::vector<std::vector<Stretch>> ranges{};
  std::vector<int> ranks{};  ///< likewise
  std::size_t index = 0;     ///< the place of this rank
};

/// Adds all nodes of the rank; the results, as the node has them. Messages have tags from `tag` on, which is moved on
/// alike on all ranks of the axis.
[[nodiscard]] std::vector<ValueId> add_ring(GraphBuilder& builder, const Ring& ring,
                                            std::span<const ValueId> inputs, std::int64_t& tag);

}  // namespace trireme::partition
