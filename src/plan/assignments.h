// Resolves the assignments of a plan for a graph. Callable from any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/plan.h"

namespace trireme {

/// Problems of the assignments that show without a graph: locations and axes that the plan does not have. Requires that
/// the plan's pipeline is valid.
[[nodiscard]] std::vector<std::string> assignment_problems(const Plan& plan);

/// By op and value of the graph. See PlacementSpec for the fields.
struct ResolvedAssignments {
  std::map<NodeId, int> op_stages{};
  std::map<NodeId, NodeId> follows{};
  std::map<ValueId, int> homes{};
  std::map<ValueId, std::vector<AxisPlacement>> placements{};
};

/// By axis: the dimension that it shards; -1: none. Without axes of size 1.
[[nodiscard]] std::map<int, int> axis_dims(const std::vector<AxisPlacement>& placements,
                                           const Axes& axes);
/// The placement of something stored, changed along these axes.
[[nodiscard]] Placement with_axes(Placement placement, const std::map<int, int>& dims);

/// Throws Error(Usage) that names the selector, op or value: one that does not exist, is assigned twice, or cannot be
/// assigned.
[[nodiscard]] ResolvedAssignments resolve_assignments(const Graph& graph, const Plan& plan);

}  // namespace trireme
