// Ring execution: a node one of whose factors is sharded by an axis and taken in turn, such as attention over KV shards
// that circulate in a ring of ranks (Liu et al., Ring Attention, 2023). Callable from any thread.
//
// Each of the p ranks along the axis starts with its own part of the factor. At time s it has the part of the rank s
// places before it, receives the next from its predecessor, sends the current one to its successor, and meanwhile
// computes with it:
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
// A part travels only to the last rank that needs it: under a causal mask, part j visits only the ranks after j. At any
// time a rank has two parts of each operand, and up to four of each result that circulates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/graph.h"
#include "trireme/op.h"
#include "trireme/placement.h"

namespace trireme::partition {

/// The factor that is sharded by one axis and taken in turn; -1 if there is none.
[[nodiscard]] int find_ring(const Factors& factors, std::span<const Placement::Dim> sharding);

struct Ring {
  Signature whole{};
  std::size_t factor = 0;  ///< that is taken in turn
  /// By position along the axis, what the rank there has of each factor.
  std::vector<std::vector<IndexRange>> ranges{};
  std::vector<int> ranks{};  ///< likewise
  std::size_t index = 0;     ///< the place of this rank
};

/// The parts of each factor that the rank at these coordinates has.
[[nodiscard]] std::vector<IndexRange> ranges_at(const Factors& factors,
                                                std::span<const Placement::Dim> sharding,
                                                const Axes& axes, std::span<const int> coordinates);

/// The ring of a node whose factors are sharded this way, for the rank at these coordinates; by axis, the ranks that
/// share its other ones. Requires find_ring() >= 0.
[[nodiscard]] Ring ring_at(const Signature& whole, std::span<const Placement::Dim> sharding,
                           const Axes& axes, std::vector<int> coordinates,
                           std::span<const std::vector<int>> axis_ranks);

/// Adds all nodes of the rank and returns the results, as the node has them. Messages have tags starting at `tag`,
/// which advances equally on all ranks of the axis.
[[nodiscard]] std::vector<ValueId> add_ring(GraphBuilder& builder, const Ring& ring,
                                            std::span<const ValueId> inputs, std::int64_t& tag);

}  // namespace trireme::partition
