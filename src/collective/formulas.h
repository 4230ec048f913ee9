// Closed formulas as counts of alpha, n*beta and n*gamma. L = ceil(log2 p), r = (p-1)/p. Requires
// checked options.
#pragma once

#include "trireme/collective_cost.h"

namespace trireme::formulas {

/// How reversing a schedule changes its cost: every byte that was copied is now combined.
[[nodiscard]] Terms dual(const Terms& terms);
[[nodiscard]] Formula dual(const Formula& formula);

[[nodiscard]] Formula tree_broadcast(const BuildOptions& o);  ///< L, L
[[nodiscard]] Formula tree_scatter(const BuildOptions& o);    ///< L, r
[[nodiscard]] Formula binary_tree_broadcast(const BuildOptions& o);
[[nodiscard]] Formula double_tree_broadcast(const BuildOptions& o);
[[nodiscard]] Formula ring_allgather(const BuildOptions& o);   ///< p-1, r
[[nodiscard]] Formula chain_broadcast(const BuildOptions& o);  ///< p-2+k, (p-2+k)/k
[[nodiscard]] Formula doubling_allgather(const BuildOptions& o);
[[nodiscard]] Formula doubling_allreduce(const BuildOptions& o);
[[nodiscard]] Formula halving_allreduce(const BuildOptions& o);
[[nodiscard]] Formula bruck_alltoall(const BuildOptions& o);
[[nodiscard]] Formula flat_broadcast(const BuildOptions& o);   ///< p-1, p-1
[[nodiscard]] Formula naive_allreduce(const BuildOptions& o);  ///< p(p-1) of all three
[[nodiscard]] Formula whole_ring_allreduce(const BuildOptions& o);
/// A barrier: the same rounds, no bytes.
[[nodiscard]] Formula latency_only(const Formula& formula);
[[nodiscard]] Formula two_level_broadcast(const BuildOptions& o);
[[nodiscard]] Formula two_level_scatter(const BuildOptions& o);
[[nodiscard]] Formula two_level_allgather(const BuildOptions& o);
[[nodiscard]] Formula two_level_allreduce(const BuildOptions& o);
[[nodiscard]] Formula two_level_alltoall(const BuildOptions& o);
[[nodiscard]] Formula two_level_barrier(const BuildOptions& o);

[[nodiscard]] Formula operator+(const Formula& a, const Formula& b);

}  // namespace trireme::formulas
