// The placements that a plan means for the values of a graph.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "graph/ops/optimizer_step.h"
#include "plan/assignments.h"
#include "plan/axis_names.h"
#include "trireme/error.h"
#include "trireme/op.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

constexpr std::string_view kTensor = "tensor";
constexpr std::string_view kContext = "context";
constexpr std::string_view kMicro = "micro";
constexpr std::string_view kParts = "parts";

/// Resolves the placements of a plan for a graph.
class PlacementResolver {
 public:
  PlacementResolver(const Graph& graph, const Plan& plan, const DimNames& names)
      : graph_(graph), plan_(plan), names_(names) {}

  PlacementSpec run() {
    require_valid(plan_);
    assigned_ = resolve_assignments(graph_, plan_);
    add_axes();
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId id{static_cast<std::int32_t>(v)};
      const Origin origin = graph_.value(id).origin;
      const bool named = names_.contains(graph_.value(id).name);
      if (origin == Origin::Node && named) {
        placements_.forced[id] = {by_names(graph_.value(id))};
      } else if (origin == Origin::Input || origin == Origin::Parameter || named) {
        placements_.stored[id] = assigned(id, by_names(graph_.value(id)));
        check_microbatches(graph_.value(id), placements_.stored[id]);
      }
    }
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::Update) {
        add_update(node);
      }
    }
    place_states();
    if (plan_.zero >= 3) {
      cut_parameters();
    }
    if (plan_.sequence) {
      cut_sequence();
    }
    if (plan_.context == Plan::Context::AllToAll) {
      exchange_heads();
    }
    if (const int context = find_axis(placements_.axes, kContext);
        context >= 0 && plan_.context == Plan::Context::Ring) {
      placements_.in_turn.insert(context);
    }
    pin_computed();
    add_stages();
    placements_.bucket = plan_.bucket;
    return std::move(placements_);
  }

 private:
  void add_axes() {
    if (plan_.microbatches > 1) {
      placements_.micro = 0;
      placements_.axes.push_back({std::string(kMicro), plan_.microbatches});
    }
    for (const MeshAxis& axis : plan_.mesh.axes()) {
      if (axis.name != kPipe && axis.size > 1) {
        placements_.axes.push_back(axis);
      }
    }
  }

  void check_microbatches(const Value& value, const Placement& placement) const {
    const int d = placements_.micro < 0 ? -1 : placement.dimension_of(placements_.micro);
    if (d >= 0 && value.type.shape.dim(d) < plan_.microbatches) {
      throw Error(ErrorKind::Usage,
                  fmt::format("{} micro-batches are more than the {} that {} has; make the batch "
                              "larger",
                              plan_.microbatches, value.type.shape.dim(d), value.name));
    }
  }

  [[nodiscard]] bool shards(const MeshAxis& axis, const std::string& dim) const {
    if (axis.name == kMicro) {
      return dim == "batch";
    }
    if (dim == kParts) {
      return axis.name == kData;
    }
    return std::ranges::any_of(plan_.sharding, [&](const AxisSharding& row) {
      return row.axis == axis.name && std::ranges::find(row.dims, dim) != row.dims.end();
    });
  }

  [[nodiscard]] Placement by_names(const Value& value) const {
    const auto it = names_.find(value.name);
    if (it == names_.end()) {
      return Placement::replicated(value.type.shape.rank());
    }
    if (static_cast<int>(it->second.size()) != value.type.shape.rank()) {
      throw Error(ErrorKind::Usage,
                  fmt::format("{} is {}, but {} of its dimensions have names", value.name,
                              to_text(value.type), it->second.size()));
    }
    return by_names(it->second);
  }
  /// Each axis shards the first dimension whose name is in its row.
  [[nodiscard]] Placement by_names(const std::vector<std::string>& dims) const {
    Placement placement = Placement::replicated(static_cast<int>(dims.size()));
    for (std::size_t a = 0; a < placements_.axes.size(); ++a) {
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (shards(placements_.axes[a], dims[d]) && !placement.mentions(static_cast<int>(a))) {
          placement.dims[d].axes.push_back(static_cast<int>(a));
        }
      }
    }
    return placement;
  }

  // Assignments of values.

  [[nodiscard]] Placement assigned(ValueId id, Placement placement) const {
    const auto it = assigned_.placements.find(id);
    return it == assigned_.placements.end()
               ? placement
               : with_axes(std::move(placement), axis_dims(it->second, placements_.axes));
  }
  void place_states() {
    for (const auto& [id, axes] : assigned_.placements) {
      if (graph_.value(id).origin == Origin::State) {
        const auto it = placements_.stored.find(id);
        const Placement before = it != placements_.stored.end()
                                     ? it->second
                                     : Placement::replicated(graph_.value(id).type.shape.rank());
        placements_.stored[id] = assigned(id, before);
      }
    }
  }
  void pin_computed() {
    for (const auto& [id, axes] : assigned_.placements) {
      if (graph_.value(id).origin == Origin::Node) {
        placements_.pinned[id] = axis_dims(axes, placements_.axes);
      }
    }
  }

  /// The placement, also sharded along `data` in the longest dimension that divides evenly, if there is one.
  [[nodiscard]] Placement sharded_along_data(const Placement& placement, const Shape& shape) const {
    const int data = find_axis(placements_.axes, kData);
    if (data < 0 || placement.mentions(data)) {
      return placement;
    }
    const std::int64_t parts = placements_.axes[data].size;
    std::optional<std::size_t> best;
    const auto rest = [&](std::size_t d) {
      std::int64_t size = shape.dims()[d];
      for (const int axis : placement.dims[d].axes) {
        size /= placements_.axes[axis].size;
      }
      return size;
    };
    const auto better = [&](std::size_t a, std::size_t b) {
      return std::pair(rest(a) % parts == 0, rest(a)) > std::pair(rest(b) % parts == 0, rest(b));
    };
    for (std::size_t d = 0; d < placement.dims.size(); ++d) {
      if (rest(d) >= parts && (!best || better(d, *best))) {
        best = d;
      }
    }
    Placement result = placement;
    if (best) {
      result.dims[*best].axes.push_back(data);
    }
    return result;
  }

  /// The parameter that an optimizer's node updates: its first input or, if that is a master copy, the parameter that
  /// is its rounding.
  [[nodiscard]] ValueId parameter_of(const Node& node) const {
    const ValueId moved = node.inputs[0];
    if (graph_.value(moved).origin != Origin::State) {
      return moved;
    }
    for (const Update& update : graph_.updates()) {
      const Value& value = graph_.value(update.value);
      if (value.origin == Origin::Node && graph_.value(update.target).origin == Origin::Parameter &&
          graph_.node(value.producer).inputs == std::vector{node.outputs[0]}) {
        return update.target;
      }
    }
    return moved;
  }

  /// For an optimizer's step: its parameter, gradient and states.
  void add_update(const Node& node) {
    if (!ops::is_optimizer_step(node)) {
      return;
    }
    const ValueId parameter = parameter_of(node);
    const ValueId gradient = node.inputs[1];
    const Placement used = placements_.stored[parameter];
    const Placement parts = sharded_along_data(used, graph_.value(parameter).type.shape);
    for (const ValueId input : node.inputs) {
      if (graph_.value(input).origin == Origin::State) {
        placements_.stored[input] = plan_.zero >= 1 ? parts : used;
      }
    }
    const Placement wanted = plan_.zero >= 1 ? parts : used;
    std::vector<Placement>& chain = placements_.forced[gradient];
    if (plan_.zero >= 2 && placements_.micro >= 0) {
      chain.push_back(wanted);
      chain.back().partial[placements_.micro] = Merge::Sum;
    }
    chain.push_back(wanted);
  }

  /// After the updates, which depend on how parameters are used.
  void cut_parameters() {
    for (const ValueId parameter : graph_.with_origin(Origin::Parameter)) {
      const Placement used = placements_.stored[parameter];
      placements_.stored[parameter] = sharded_along_data(used, graph_.value(parameter).type.shape);
      placements_.used[parameter] = used;
    }
  }

  /// The input of the first block is sharded along the sequence, by `tensor` as well; the rest follows.
  void cut_sequence() {
    const int tensor = find_axis(placements_.axes, kTensor);
    if (tensor < 0) {
      return;
    }
    std::set<ValueId> found;
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        const Value& value = graph_.value(input);
        const bool enters = node.phase == Phase::Forward && node.block == 0 &&
                            value.origin == Origin::Node && graph_.node(value.producer).block == -1;
        if (!enters || value.type.shape.rank() != 3 || !found.insert(input).second) {
          continue;
        }
        Placement placement = by_names({"batch", "sequence", "width"});
        placement.dims[1].axes.push_back(tensor);
        placements_.forced[input] = {placement};
      }
    }
    if (found.empty()) {
      throw Error(ErrorKind::Usage, fmt::format("graph {} has no activations [batch, sequence, "
                                                "width] before its first block to shard",
                                                graph_.name()));
    }
  }

  /// Attention's operands are sharded by heads instead of the sequence, its results by the sequence again.
  void exchange_heads() {
    const int context = find_axis(placements_.axes, kContext);
    if (context < 0) {
      return;
    }
    const Placement by_sequence = by_names({"batch", "sequence", "heads", "head"});
    Placement by_heads = by_sequence;
    std::erase(by_heads.dims[1].axes, context);
    by_heads.dims[2].axes.push_back(context);
    const auto force = [&](ValueId id, const Placement& placement) {
      if (graph_.value(id).origin == Origin::Node) {
        placements_.forced[id] = {placement};
      }
    };
    for (const Node& node : graph_.nodes()) {
      if (node.op->name == "attention") {
        force(node.outputs[0], by_sequence);
        for (const ValueId input : node.inputs) {
          force(input, by_heads);
        }
      } else if (node.op->name == "attention_backward") {
        for (const ValueId output : node.outputs) {
          force(output, by_sequence);
        }
      }
    }
  }

  void add_stages() {
    const int stages = table_of(plan_).stages;
    std::int32_t blocks = 0;
    for (const Node& node : graph_.nodes()) {
      blocks = std::max(blocks, node.block + 1);
    }
    placements_.stage_count = stages;
    placements_.op_stages = assigned_.op_stages;
    placements_.follows = assigned_.follows;
    placements_.homes = assigned_.homes;
    if (blocks < stages && !plan_.ops.empty()) {
      return;  // ops that are not assigned run where their inputs are
    }
    if (stages > 1 && blocks < stages) {
      throw Error(ErrorKind::Usage,
                  fmt::format("{} stages are more than the {} blocks of the model; make the axis "
                              "pipe, or the chunks, smaller, or assign ops to stages",
                              stages, blocks));
    }
    if (!plan_.stage_blocks.empty() && stages > 1) {
      add_given_stages(blocks);
      return;
    }
    for (std::int32_t block = 0; stages > 1 && block < blocks; ++block) {
      placements_.stages[block] = block * stages / blocks;
    }
  }

  void add_given_stages(std::int32_t blocks) {
    std::int32_t next = 0;
    for (std::size_t stage = 0; stage < plan_.stage_blocks.size(); ++stage) {
      for (int i = 0; i < plan_.stage_blocks[stage]; ++i) {
        placements_.stages[next++] = static_cast<int>(stage);
      }
    }
    if (next != blocks) {
      throw Error(ErrorKind::Usage,
                  fmt::format("the stages of the plan have {} blocks together, the model has {}; "
                              "correct stage_blocks, or leave it out",
                              next, blocks));
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const DimNames& names_;
  ResolvedAssignments assigned_;
  PlacementSpec placements_;
};

}  // namespace

PlacementSpec resolve_placements(const Graph& graph, const Plan& plan, const DimNames& names) {
  return PlacementResolver(graph, plan, names).run();
}

}  // namespace trireme
