#include <algorithm>
#include <vector>

#include "autodiff/rebuild.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

std::size_t at(ValueId id) {
  return static_cast<std::size_t>(id.index);
}

/// By value: an output or an update needs it. Backwards, so that readers come before what they read.
std::vector<bool> find_needed(const Graph& graph) {
  std::vector<bool> needed(graph.values().size(), false);
  for (const Output& output : graph.outputs()) {
    needed[at(output.value)] = true;
  }
  for (const Update& update : graph.updates()) {
    needed[at(update.value)] = true;
  }
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (std::ranges::any_of(node->outputs, [&](ValueId id) { return needed[at(id)]; })) {
      for (const ValueId input : node->inputs) {
        needed[at(input)] = true;
      }
    }
  }
  return needed;
}

}  // namespace

Graph remove_dead_nodes(const Graph& graph) {
  const std::vector<bool> needed = find_needed(graph);
  Rebuild rebuild(graph);
  for (const Node& node : graph.nodes()) {
    if (std::ranges::any_of(node.outputs, [&](ValueId id) { return needed[at(id)]; })) {
      rebuild.copy(node);
    }
  }
  return rebuild.finish();
}

}  // namespace trireme
