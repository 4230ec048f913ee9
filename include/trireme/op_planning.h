// Op-level planning: the exact intra-op problem of a real training graph. Every op of the forward pass may shard any of its
// factors over each axis of a mesh, every input and parameter any of its dimensions; what that costs follows from the op's
// row and from the collectives between placements. choose_strategies() solves it; the answer is a plan that places every
// value, which `trireme train --plan` runs.
//
// Nothing here refers to data or tensor parallelism: both result from the search. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/graph.h"
#include "trireme/mesh.h"
#include "trireme/op_strategy.h"
#include "trireme/placement_search.h"
#include "trireme/plan.h"

namespace trireme {

struct OpPlanOptions {
  Mesh mesh{};  ///< axes to shard over, the last one between neighbors; no `pipe`
  std::optional<double> memory_bytes{};  ///< of a device; none: no limit
};

/// An input, a parameter, or an op of the forward pass.
struct PlannedOp {
  ValueId value{};  ///< that is stored, or the first result
  NodeId node{};    ///< invalid: stored
  std::vector<OpStrategy> strategies{};
};

/// Strategies of all ops, and the same as a problem: its nodes are `ops`, and each value that an op reads is an edge.
struct OpProblem {
  std::vector<PlannedOp> ops{};
  StrategyProblem problem{};
};

/// Of a training graph of one logical device. Throws Error(Usage) if the mesh has an axis `pipe` or does not fit the
/// cluster, or if the device's peak or memory bandwidth is unknown.
[[nodiscard]] OpProblem make_op_problem(const Graph& step, const Cluster& cluster,
                                        const OpPlanOptions& options);

struct OpPlan {
  Plan plan{};              ///< with a placement for each value of the forward pass
  StrategyChoice choice{};  ///< of OpProblem::problem; `cost` is seconds of a step without overlap
  double replicated_seconds = 0;  ///< if every device computed everything
};

/// The cheapest choice as a plan; nothing if none is within memory. Throws as make_op_problem().
[[nodiscard]] std::optional<OpPlan> plan_ops(const Graph& step, const Cluster& cluster,
                                             const OpPlanOptions& options);

}  // namespace trireme
