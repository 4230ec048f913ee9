#include "partition/node_stages.h"

#include <algorithm>

namespace trireme::partition {

NodeStages::NodeStages(const Placed& placed) : placed_(placed) {
  stages_.assign(placed.graph.values().size(), -1);
  for (const Update& update : placed.graph.updates()) {
    if (placed.graph.value(update.target).origin == Origin::Parameter) {
      find_movers(update);
    }
  }
}

/// The nodes that compute a parameter's next value: an optimizer's node or, if that updates a master copy, also the
/// rounding after it.
void NodeStages::find_movers(const Update& update) {
  const Graph& graph = placed_.graph;
  if (graph.value(update.value).origin != Origin::Node) {
    return;
  }
  const NodeId last = graph.value(update.value).producer;
  moves_[last] = update.target;
  const std::vector<ValueId>& inputs = graph.node(last).inputs;
  if (inputs.size() == 1 && graph.value(inputs[0]).origin == Origin::Node) {
    moves_[graph.value(inputs[0]).producer] = update.target;
  }
}

int NodeStages::find(NodeId id) const {
  const PlacementSpec& placements = placed_.placements;
  const Node& node = placed_.graph.node(id);
  const auto moved = moves_.find(id);
  if (moved != moves_.end() && placed_.home[moved->second] >= 0) {
    return placed_.home[moved->second];
  }
  if (const auto it = placements.op_stages.find(id); it != placements.op_stages.end()) {
    return it->second;
  }
  if (const auto it = placements.follows.find(id); it != placements.follows.end()) {
    return of(placed_.graph.node(it->second).outputs.front());
  }
  if (const auto it = placements.stages.find(node.block); it != placements.stages.end()) {
    return it->second;
  }
  return stage_of_inputs(node);
}

void NodeStages::set(NodeId id, int stage) {
  for (const ValueId output : placed_.graph.node(id).outputs) {
    stages_[output] = stage;
  }
}

int NodeStages::stage_of_inputs(const Node& node) const {
  const bool forward = node.phase == Phase::Forward;
  int stage = -1;
  for (const ValueId input : node.inputs) {
    const int of_input = of(input);
    if (of_input >= 0 && (forward || is_late(input))) {
      stage = stage < 0 ? of_input
              : forward ? std::max(stage, of_input)
                        : std::min(stage, of_input);
    }
  }
  if (stage < 0 && !forward) {  // not in the backward: with its forward inputs, else at the end
    for (const ValueId input : node.inputs) {
      stage = std::max(stage, of(input));
    }
    stage = stage < 0 ? placed_.stage_count - 1 : stage;
  }
  return std::max(stage, 0);
}

bool NodeStages::is_late(ValueId id) const {
  const Value& value = placed_.graph.value(id);
  return value.origin == Origin::Node && placed_.graph.node(value.producer).phase != Phase::Forward;
}

}  // namespace trireme::partition
