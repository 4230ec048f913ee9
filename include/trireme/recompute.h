// Recomputation: what the forward computed and the backward needs is either kept in between or computed
// again. Trades FLOPs for memory; gradients stay the same bit for bit. Works on graphs with gradients, by
// block (Node::block). Any thread.
//
// What leaves a block (is read in the forward of another, by an update, or is an output) is always kept.
// Nodes of no block are never computed again. Nothing is computed again that no backward needs: the last
// product of a block, say, whose result leaves it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "trireme/graph.h"
#include "trireme/recompute_choice.h"

namespace trireme {

struct RecomputeOptions {
  RecomputeMode mode = RecomputeMode::None;
  /// Blocks that are treated otherwise.
  std::map<std::int32_t, RecomputeMode> blocks{};
};

/// The graph with nodes of Phase::Recompute, which stand together before the first node of the backward that
/// needs one of their block. A node that is computed again has results called again/NAME.
[[nodiscard]] Graph recompute(const Graph& graph, const RecomputeOptions& options);
/// As the choice says. Throws Error(Usage) if its budget cannot be held, with the least that could.
[[nodiscard]] Graph recompute_by(const Graph& graph, const RecomputeChoice& choice);

/// The results of the forward that later phases read, together: what activations occupy when the forward is
/// done. Parameters, state and inputs are not among them.
[[nodiscard]] Bytes kept_bytes(const Graph& graph);

struct RecomputePlan {
  std::map<std::int32_t, RecomputeMode> blocks{};  ///< for RecomputeOptions
  Bytes kept{};
  double flops = 0;  ///< computed again, of all kinds
};

/// The least FLOPs to compute again so that no more than `budget` is kept; nothing if even the least that
/// can be kept is more. Exact for chains: every value that leaves a block is read by the blocks beside it.
/// For other graphs the budget is held, but there may be a better plan.
[[nodiscard]] std::optional<RecomputePlan> plan_recompute(const Graph& graph, Bytes budget);

}  // namespace trireme
