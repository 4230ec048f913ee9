// The explicitly written algorithms. reversed() derives duals, then() and in_parallel() derive
// compositions, both in catalogue.cpp.
//
// All take the number of ranks p >= 1, work for every p, and return a well-formed Schedule with its
// operation set.
#pragma once

#include "trireme/schedule.h"

namespace trireme {

/// An empty schedule of this shape, for the algorithms to fill.
[[nodiscard]] Schedule frame(Operation operation, Rank ranks, Layout layout, Block blocks,
                             Rank root = 0);

/// value mod p in [0, p), for negative values too.
[[nodiscard]] Rank wrapped(std::int64_t value, Rank p);

/// ceil(log2 p): the number of rounds in which information from one rank can reach all.
[[nodiscard]] int ceil_log2(Rank p);
[[nodiscard]] int floor_log2(Rank p);

// tree.cpp
[[nodiscard]] Schedule tree_broadcast(Rank p, Rank root);
[[nodiscard]] Schedule tree_scatter(Rank p, Rank root);
[[nodiscard]] Schedule binary_tree_broadcast(Rank p, Rank root);

// ring.cpp
[[nodiscard]] Schedule ring_allgather(Rank p);
/// The all-gather that completes a tree_scatter: omits the messages whose block the scatter has
/// already left at the receiver.
[[nodiscard]] Schedule ring_allgather_after(const Schedule& scatter);
[[nodiscard]] Schedule ring_allreduce(Rank p);
[[nodiscard]] Schedule chain_broadcast(Rank p, Rank root, std::int64_t segments);

// recursive.cpp
[[nodiscard]] Schedule doubling_allgather(Rank p);
[[nodiscard]] Schedule doubling_allreduce(Rank p);
[[nodiscard]] Schedule halving_allreduce(Rank p);

// bruck.cpp
[[nodiscard]] Schedule bruck_allgather(Rank p);
[[nodiscard]] Schedule bruck_alltoall(Rank p);
[[nodiscard]] Schedule pairwise_alltoall(Rank p);
[[nodiscard]] Schedule dissemination_barrier(Rank p);

// flat.cpp
[[nodiscard]] Schedule flat_broadcast(Rank p, Rank root);
[[nodiscard]] Schedule flat_scatter(Rank p, Rank root);
[[nodiscard]] Schedule naive_allreduce(Rank p);

// double_tree.cpp
[[nodiscard]] Schedule double_tree_broadcast(Rank p, Rank root, std::int64_t segments);
/// Steps of double_tree_broadcast with one segment; each further segment adds two.
[[nodiscard]] std::int64_t double_tree_depth(Rank p);

// two_level.cpp: p ranks on nodes of d; rank = node * d + place in the node. d divides p.
[[nodiscard]] Schedule two_level_broadcast(Rank p, Rank root, Rank d);
[[nodiscard]] Schedule two_level_scatter(Rank p, Rank root, Rank d);
[[nodiscard]] Schedule two_level_reduce_scatter(Rank p, Rank d);
[[nodiscard]] Schedule two_level_allreduce(Rank p, Rank d);
[[nodiscard]] Schedule two_level_alltoall(Rank p, Rank d);
[[nodiscard]] Schedule two_level_barrier(Rank p, Rank d);

}  // namespace trireme
