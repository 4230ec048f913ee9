// Activation recomputation: the backward either keeps or recomputes the forward results that it needs. Trades FLOPs for
// memory; gradients are identical bit for bit. Works on graphs with gradients, by block (Node::block). Callable from
// any thread.
//
// Values that leave a block (read in the forward of another, by an update, or an output) are always kept. Nodes of no
// block are never recomputed, nor are nodes that no backward needs, such as the last product of a block, whose result
// leaves it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "trireme/graph.h"
#include "trireme/recompute_choice.h"

namespace trireme {

/// The graph with nodes of Phase::Recompute, placed together before the first backward node that needs one of their
/// block. The results of a recomputed node are called recompute/NAME.
[[nodiscard]] Graph recompute(const Graph& graph, const RecomputeOptions& options);
/// Throws Error(Usage) with the smallest feasible budget if the budget cannot be met.
[[nodiscard]] Graph recompute_by(const Graph& graph, const RecomputeChoice& choice);

/// The total size of the forward results that later phases read: the activation memory at the end of the forward.
/// Excludes parameters, state and inputs.
[[nodiscard]] Bytes kept_bytes(const Graph& graph);

struct RecomputePlan {
  std::map<std::int32_t, RecomputeMode> blocks{};  ///< for RecomputeOptions
  Bytes kept{};
  double flops = 0;  ///< recomputed, of all kinds
};

/// Minimizes the recomputed FLOPs subject to keeping at most `budget`; nothing if even the minimum that must be kept is
/// more. Optimal for chains, in which only adjacent blocks read the values that leave a block. For other graphs the
/// plan meets the budget, but there may be a better one.
[[nodiscard]] std::optional<RecomputePlan> plan_recompute(const Graph& graph, Bytes budget);

}  // namespace trireme
