#include <algorithm>

#include "autodiff/rebuild.h"
#include "base/indexed_vector.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// By value: an output or an update needs it. Backwards, so that readers come before what they read.
IndexedVector<ValueId, bool> find_needed(const Graph& graph) {
  IndexedVector<ValueId, bool> needed(graph.values().size(), false);
  for (const Output& output : graph.outputs()) {
    needed[output.value] = true;
  }
  for (const Update& update : graph.updates()) {
    needed[update.value] = true;
  }
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (std::ranges::any_of(node->outputs, [&](ValueId id) { return needed[id]; })) {
      for (const ValueId input : node->inputs) {
        needed[input] = true;
      }
    }
  }
  return needed;
}

}  // namespace

Graph remove_dead_nodes(const Graph& graph) {
  const IndexedVector<ValueId, bool> needed = find_needed(graph);
  Rebuild rebuild(graph);
  for (const Node& node : graph.nodes()) {
    if (std::ranges::any_of(node.outputs, [&](ValueId id) { return needed[id]; })) {
      rebuild.copy(node);
    }
  }
  return rebuild.finish();
}

}  // namespace trireme
