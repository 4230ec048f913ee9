#include "plan/assignments.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "plan/selectors.h"
#include "trireme/error.h"
#include "trireme/op_names.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::Usage, "plan: " + reason);
}

// Locations.

std::vector<int> stages_of_device(const PipelineTable& table, int device) {
  std::vector<int> stages;
  for (int stage = 0; stage < table.stages; ++stage) {
    if (table.rank_of(0, stage) == device) {
      stages.push_back(stage);
    }
  }
  return stages;
}

/// Why the table has no such stage.
std::vector<std::string> location_problems(const PipeLocation& location,
                                           const PipelineTable& table) {
  const bool stage = location.unit == PipeLocation::Unit::Stage;
  const int count = stage ? table.stages : table.ranks;
  if (location.index < 0 || location.index >= count) {
    return {fmt::format("{} does not exist: the plan has {} {}{}{}", to_text(location), count,
                        to_text(location.unit), count == 1 ? "" : "s",
                        count == 1 ? "; give the mesh an axis pipe" : " along pipe, from 0")};
  }
  const bool has_one = table.copies == 1 && stages_of_device(table, location.index).size() == 1;
  if (!stage && !has_one) {
    return {fmt::format("{} does not have exactly one stage in schedule {}; name a stage",
                        to_text(location), table.name)};
  }
  return {};
}

int stage_of(const PipeLocation& location, const PipelineTable& table) {
  return location.unit == PipeLocation::Unit::Stage
             ? location.index
             : stages_of_device(table, location.index).front();
}

// Names.

[[noreturn]] void refuse_unknown(std::string_view kind, const std::string& selector,
                                 const std::vector<std::string>& known) {
  if (is_pattern(selector)) {
    refuse(fmt::format("no {} matches '{}'; trireme plan show --{}s lists them", kind, selector,
                       kind));
  }
  const auto near = nearest_word(selector, known);
  refuse(fmt::format("unknown {} '{}'{}", kind, selector,
                     near ? fmt::format("; did you mean '{}'?", *near)
                          : fmt::format("; trireme plan show --{}s lists them", kind)));
}

/// The choice for one item, such as the stage of an op, by selectors in order of rank. Selectors of the same rank must
/// agree unless a higher one has decided.
template <class T>
class Choice {
 public:
  /// `what` is for the message: "the stage of op relu".
  void add(const std::string& selector, const T& value, const std::string& what) {
    if (selector_.empty()) {
      selector_ = selector;
      value_ = value;
    } else if (rank_of(selector_) == rank_of(selector) && !(value == value_)) {
      refuse(fmt::format("'{}' and '{}' disagree about {}; assign it by its exact name", selector_,
                         selector, what));
    }
  }
  [[nodiscard]] const T& value() const { return value_; }

 private:
  std::string selector_;
  T value_{};
};

class AssignmentResolver {
 public:
  AssignmentResolver(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), table_(table_of(plan)) {
    for (std::size_t v = 0; v < graph.values().size(); ++v) {
      ids_.emplace(graph.values()[v].name, ValueId{static_cast<std::int32_t>(v)});
    }
  }

  ResolvedAssignments run() {
    for (const SelectorRank rank :
         {SelectorRank::Name, SelectorRank::Pattern, SelectorRank::Default}) {
      add_all(plan_.ops, rank);
      add_all(plan_.values, rank);
    }
    for (const auto& [node, choice] : stages_) {
      resolved_.op_stages[node] = choice.value();
    }
    for (const auto& [value, choice] : homes_) {
      resolved_.homes[value] = choice.value();
    }
    for (const auto& [key, choice] : placements_) {
      resolved_.placements[key.first].push_back({.axis = key.second, .sharded = choice.value()});
    }
    if (!plan_.ops.empty()) {
      find_followers();
    }
    return std::move(resolved_);
  }

 private:
  [[nodiscard]] const std::string& name_of(const Node& node) const {
    return graph_.value(node.outputs.front()).name;
  }
  [[nodiscard]] static NodeId node_id(std::size_t n) { return {static_cast<std::int32_t>(n)}; }

  template <class Row>
  void add_all(const std::vector<Row>& rows, SelectorRank rank) {
    for (const Row& row : rows) {
      if (rank_of(row.selector) == rank) {
        add(row);
      }
    }
  }

  // Ops.

  void add(const OpAssignment& row) {
    bool found = false;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.outputs.empty() || !selects(row.selector, node, graph_)) {
        continue;
      }
      found = true;
      require_free(node);
      stages_[node_id(n)].add(
          row.selector, stage_of(row.location, table_),
          fmt::format("the {} of op {}", to_text(row.location.unit), name_of(node)));
    }
    if (!found) {
      refuse_unknown("op", row.selector, op_names());
    }
  }

  /// An op that computes the next value of a parameter or state runs where that is stored.
  void require_free(const Node& node) const {
    for (const Update& update : graph_.updates()) {
      if (std::ranges::find(node.outputs, update.value) != node.outputs.end()) {
        const std::string& target = graph_.value(update.target).name;
        refuse(
            fmt::format("op {} updates {} and runs where that is stored; assign the parameter "
                        "under values instead",
                        name_of(node), target));
      }
    }
  }

  [[nodiscard]] std::vector<std::string> op_names() const {
    std::vector<std::string> names;
    std::set<std::int32_t> blocks;
    for (const Node& node : graph_.nodes()) {
      if (!node.outputs.empty()) {
        names.push_back(name_of(node));
      }
      if (node.block >= 0 && blocks.insert(node.block).second) {
        names.push_back(block_selector(node.block));
      }
    }
    return names;
  }

  // Values.

  void add(const ValueAssignment& row) {
    const bool exact = rank_of(row.selector) == SelectorRank::Name;
    bool found = false;
    for (const auto& [name, id] : ids_) {
      const bool selected = exact ? name == row.selector : matches(row.selector, name);
      const Value& value = graph_.value(id);
      if (!selected) {
        continue;
      }
      if (value.origin == Origin::Parameter || exact) {
        add_home(row, value, id);
      }
      add_placements(row, value, id);
      found = true;
    }
    if (!found) {
      std::vector<std::string> names;
      std::ranges::transform(graph_.values(), std::back_inserter(names), &Value::name);
      refuse_unknown("value", row.selector, names);
    }
  }

  void add_home(const ValueAssignment& row, const Value& value, ValueId id) {
    if (!row.location) {
      return;
    }
    if (value.origin != Origin::Parameter) {
      constexpr auto kReasons = enum_names<Origin>(
          "an input is on every device that reads it", "", "a state is stored with its parameter",
          "it is computed: assign the op of this name under ops");
      refuse(fmt::format("{} cannot have its own {}: {}", value.name, to_text(row.location->unit),
                         kReasons[value.origin]));
    }
    homes_[id].add(row.selector, stage_of(*row.location, table_),
                   fmt::format("the {} of {}", to_text(row.location->unit), value.name));
  }

  void add_placements(const ValueAssignment& row, const Value& value, ValueId id) {
    for (const AxisPlacement& one : row.axes) {
      if (one.sharded && *one.sharded >= value.type.shape.rank()) {
        refuse(fmt::format("{} is {}; it has no dimension {} to shard along {}", value.name,
                           to_text(value.type), *one.sharded, one.axis));
      }
      placements_[{id, one.axis}].add(
          row.selector, one.sharded,
          fmt::format("the placement of {} along {}", value.name, one.axis));
    }
  }

  // Ops that follow others.

  void find_followers() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.phase == Phase::Forward || node.outputs.empty()) {
        continue;
      }
      const NodeId leader = node.phase == Phase::Update ? first_maker(node) : leader_of(node);
      if (leader.valid() && leader < node_id(n)) {
        resolved_.follows[node_id(n)] = leader;
      }
    }
  }

  /// The op of the forward pass that the node recomputes or differentiates, from its name.
  [[nodiscard]] NodeId leader_of(const Node& node) const {
    std::string_view name = name_of(node);
    if (name.starts_with(kRecomputePrefix)) {
      return owner_of(name.substr(kRecomputePrefix.size()));
    }
    if (name.starts_with(kGradientPrefix)) {
      name.remove_prefix(kGradientPrefix.size());
      return owner_of(name.substr(0, name.rfind('/')));
    }
    constexpr std::string_view kOfParameter = "d_";
    return name.starts_with(kOfParameter) ? owner_of(name.substr(kOfParameter.size())) : NodeId{};
  }

  /// The op that computes a value, or the first that reads a parameter.
  [[nodiscard]] NodeId owner_of(std::string_view name) const {
    const auto it = ids_.find(name);
    if (it == ids_.end()) {
      return {};
    }
    const Value& value = graph_.value(it->second);
    return value.origin == Origin::Node ? value.producer : first_reader(it->second);
  }
  [[nodiscard]] NodeId first_reader(ValueId id) const {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const std::vector<ValueId>& inputs = graph_.nodes()[n].inputs;
      if (std::ranges::find(inputs, id) != inputs.end()) {
        return node_id(n);
      }
    }
    return {};
  }

  /// An op of the update that reads one gradient runs where the gradient is.
  [[nodiscard]] NodeId first_maker(const Node& node) const {
    if (node.inputs.size() != 1 || graph_.value(node.inputs[0]).origin != Origin::Node) {
      return {};
    }
    return graph_.value(node.inputs[0]).producer;
  }

  const Graph& graph_;
  const Plan& plan_;
  PipelineTable table_;
  std::map<std::string_view, ValueId> ids_;
  std::map<NodeId, Choice<int>> stages_;
  std::map<ValueId, Choice<int>> homes_;
  std::map<std::pair<ValueId, std::string>, Choice<std::optional<int>>> placements_;
  ResolvedAssignments resolved_;
};

std::vector<std::string> axis_problems(const AxisPlacement& placement, const Mesh& mesh) {
  if (placement.axis == "pipe") {
    return {"pipe does not shard values; name a stage or a device"};
  }
  const bool known = std::ranges::any_of(
      mesh.axes(), [&](const MeshAxis& axis) { return axis.name == placement.axis; });
  if (!known) {
    return {fmt::format("the mesh {} has no axis '{}'", to_text(mesh), placement.axis)};
  }
  return {};
}

}  // namespace

std::vector<std::string> assignment_problems(const Plan& plan) {
  std::vector<std::string> problems;
  const PipelineTable table = table_of(plan);
  const auto add = [&](const char* field, const std::string& selector,
                       const std::vector<std::string>& reasons) {
    for (const std::string& reason : reasons) {
      problems.push_back(fmt::format("{}: '{}': {}", field, selector, reason));
    }
  };
  std::set<std::pair<std::string_view, std::string>> seen;
  const auto add_twice = [&](const char* field, const std::string& selector) {
    if (!seen.insert({field, selector}).second) {
      add(field, selector, {"assigned twice"});
    }
  };
  for (const OpAssignment& row : plan.ops) {
    add_twice("ops", row.selector);
    add("ops", row.selector, location_problems(row.location, table));
  }
  for (const ValueAssignment& row : plan.values) {
    add_twice("values", row.selector);
    if (row.location) {
      add("values", row.selector, location_problems(*row.location, table));
    }
    for (const AxisPlacement& placement : row.axes) {
      add("values", row.selector, axis_problems(placement, plan.mesh));
    }
  }
  return problems;
}

std::map<int, int> axis_dims(const std::vector<AxisPlacement>& placements, const Axes& axes) {
  std::map<int, int> dims;
  for (const AxisPlacement& one : placements) {
    const int axis = find_axis(axes, one.axis);
    if (axis >= 0) {
      dims[axis] = one.sharded.value_or(-1);
    }
  }
  return dims;
}

Placement with_axes(Placement placement, const std::map<int, int>& dims) {
  for (const auto& [axis, dimension] : dims) {
    for (Placement::Dim& dim : placement.dims) {
      std::erase(dim.axes, axis);
    }
    if (dimension >= 0) {
      std::vector<int>& axes = placement.dims[dimension].axes;
      axes.insert(std::ranges::upper_bound(axes, axis), axis);
    }
  }
  return placement;
}

Plan with_assignments_in(const Graph& graph, Plan plan) {
  std::erase_if(plan.ops, [&](const OpAssignment& row) {
    return std::ranges::none_of(graph.nodes(), [&](const Node& node) {
      return !node.outputs.empty() && selects(row.selector, node, graph);
    });
  });
  std::erase_if(plan.values, [&](const ValueAssignment& row) {
    return std::ranges::none_of(
        graph.values(), [&](const Value& value) { return matches(row.selector, value.name); });
  });
  return plan;
}

Plan with_devices(Plan plan) {
  const PipelineTable table = table_of(plan);
  const auto to_device = [&](PipeLocation& location) {
    location = {.unit = PipeLocation::Unit::Device,
                .index = table.rank_of(0, stage_of(location, table))};
  };
  for (OpAssignment& row : plan.ops) {
    to_device(row.location);
  }
  for (ValueAssignment& row : plan.values) {
    if (row.location) {
      to_device(*row.location);
    }
  }
  return plan;
}

ResolvedAssignments resolve_assignments(const Graph& graph, const Plan& plan) {
  return AssignmentResolver(graph, plan).run();
}

}  // namespace trireme
