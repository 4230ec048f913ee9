// The intra-op problem of a graph. An edge from value to reader costs
//
//   forward   the placement of the value -> the one that the reader needs
//   backward  the reader's gradient of it -> the placement of the value
//
// where the gradient is partial if the reader is sharded along a factor that the value lacks: so data parallelism
// all-reduces the gradients of its weights, and Megatron's column-parallel product that of its input.
#include "trireme/op_planning.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "planner/op_strategies.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme {
namespace planner {
namespace {

class OpProblemBuilder {
 public:
  OpProblemBuilder(const Graph& step, const Cluster& cluster, const Mesh& mesh)
      : graph_(step),
        rates_{.device = cluster.device, .efficiency = efficiency_of(cluster)},
        costs_(cluster, mesh),
        trained_(step.values().size(), false),
        maker_(step.values().size(), -1) {}

  OpProblem run() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.phase == Phase::Forward && !node.outputs.empty()) {
        add(node, {static_cast<std::int32_t>(n)});
      }
    }
    return std::move(result_);
  }

 private:
  void add(const Node& node, NodeId id) {
    bool has_gradient = false;
    for (const ValueId input : node.inputs) {
      add_stored(input);
      has_gradient = has_gradient || trained_[input];
    }
    for (const ValueId output : node.outputs) {
      trained_[output] = has_gradient;
      maker_[output] = static_cast<int>(result_.ops.size());
    }
    add_op({.value = node.outputs.front(),
            .node = id,
            .strategies = strategies_of(graph_, node, trained_, rates_, costs_)});
    const int reader = static_cast<int>(result_.ops.size()) - 1;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      add_edge(node.inputs[k], reader, k);
    }
  }

  void add_stored(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.origin == Origin::Node || maker_[id] >= 0) {
      return;
    }
    trained_[id] = value.origin == Origin::Parameter;
    maker_[id] = static_cast<int>(result_.ops.size());
    add_op({.value = id, .node = {}, .strategies = strategies_of(value, rates_, costs_)});
  }

  void add_op(PlannedOp op) {
    StrategyProblem::Node node;
    for (const OpStrategy& strategy : op.strategies) {
      node.cost.push_back(strategy.seconds);
      node.memory.push_back(strategy.bytes);
    }
    result_.problem.nodes.push_back(std::move(node));
    result_.ops.push_back(std::move(op));
  }

  void add_edge(ValueId id, int reader, std::size_t input) {
    const int from = maker_[id];
    const std::size_t result = result_of(id, from);
    StrategyProblem::Edge edge{.from = from, .to = reader, .cost = {}};
    for (const OpStrategy& made : result_.ops[from].strategies) {
      for (const OpStrategy& read : result_.ops[reader].strategies) {
        edge.cost.push_back(edge_seconds(id, made.outputs[result], read, input));
      }
    }
    result_.problem.edges.push_back(std::move(edge));
  }

  [[nodiscard]] std::size_t result_of(ValueId id, int maker) const {
    const NodeId node = result_.ops[maker].node;
    if (!node.valid()) {
      return 0;
    }
    const std::vector<ValueId>& outputs = graph_.node(node).outputs;
    return std::ranges::find(outputs, id) - outputs.begin();
  }

  /// The backward pass reads the value again, and reshards it again.
  [[nodiscard]] double edge_seconds(ValueId id, const AxisDims& made, const OpStrategy& read,
                                    std::size_t input) const {
    const auto bytes = static_cast<double>(size_of(graph_.value(id).type).count);
    const AxisDims& needed = read.inputs[input];
    const double forward = costs_.change(made, needed, bytes);
    if (!trained_[id]) {
      return forward;
    }
    AxisDims gradient = needed;
    for (std::size_t a = 0; a < gradient.size(); ++a) {
      const bool summed = read.factors[a] >= 0 && needed[a] == kReplicatedDim;
      gradient[a] = summed ? kPartialDim : needed[a];
    }
    return 2 * forward + costs_.change(gradient, made, bytes);
  }

  const Graph& graph_;
  DeviceRates rates_;
  PlacementCosts costs_;
  IndexedVector<ValueId, bool> trained_;
  IndexedVector<ValueId, int> maker_;  ///< its number in the problem; -1: not yet
  OpProblem result_;
};

void require_ops_mesh(const Mesh& mesh, const Cluster& cluster) {
  if (mesh.size("pipe") > 1) {
    throw Error(ErrorKind::Usage,
                "--ops places ops on all devices of the mesh; leave out the axis pipe");
  }
  if (mesh.devices() > cluster.devices()) {
    throw Error(ErrorKind::Usage, fmt::format("mesh {} needs {} devices, {} has {}", to_text(mesh),
                                              mesh.devices(), cluster.name, cluster.devices()));
  }
}

ValueAssignment assignment_of(const Value& value, const AxisDims& dims, const Mesh& mesh) {
  ValueAssignment row{.selector = value.name};
  for (std::size_t a = 0; a < dims.size(); ++a) {
    row.axes.push_back({.axis = mesh.axes()[a].name,
                        .sharded = dims[a] >= 0 ? std::optional(dims[a]) : std::nullopt});
  }
  return row;
}

/// Names shard nothing: every placement is stated.
Plan plan_of(const Graph& step, const Mesh& mesh, const OpProblem& ops,
             const std::vector<int>& strategies) {
  Plan plan{.mesh = mesh};
  plan.sharding.clear();
  for (const MeshAxis& axis : mesh.axes()) {
    plan.sharding.push_back({.axis = axis.name});
  }
  for (std::size_t i = 0; i < ops.ops.size(); ++i) {
    const PlannedOp& op = ops.ops[i];
    const OpStrategy& strategy = op.strategies[strategies[i]];
    for (std::size_t k = 0; k < strategy.outputs.size(); ++k) {
      const ValueId id = op.node.valid() ? step.node(op.node).outputs[k] : op.value;
      plan.values.push_back(assignment_of(step.value(id), strategy.outputs[k], mesh));
    }
  }
  require_valid(plan, ErrorKind::Usage, "plan");
  return plan;
}

}  // namespace
}  // namespace planner

OpProblem make_op_problem(const Graph& step, const Cluster& cluster, const OpPlanOptions& options) {
  planner::require_ops_mesh(options.mesh, cluster);
  return planner::OpProblemBuilder(step, cluster, options.mesh).run();
}

std::optional<OpPlan> plan_ops(const Graph& step, const Cluster& cluster,
                               const OpPlanOptions& options) {
  const OpProblem ops = make_op_problem(step, cluster, options);
  const std::optional<StrategyChoice> choice =
      options.memory_bytes ? choose_strategies(ops.problem, *options.memory_bytes)
                           : choose_strategies(ops.problem);
  if (!choice) {
    return std::nullopt;
  }
  const std::vector<int> replicated(ops.ops.size(), 0);  // the first strategy shards nothing
  return OpPlan{.plan = planner::plan_of(step, options.mesh, ops, choice->strategies),
                .choice = *choice,
                .replicated_seconds = evaluate(ops.problem, replicated).cost};
}

}  // namespace trireme
