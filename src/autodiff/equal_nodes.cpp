#include <map>
#include <tuple>
#include <vector>

#include "autodiff/rebuild.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// Nodes with equal keys compute the same, in the same phase and block.
using Key = std::tuple<const Op*, std::vector<ValueId>, Attributes, Phase, std::int32_t>;

}  // namespace

Graph merge_equal_nodes(const Graph& graph) {
  Rebuild rebuild(graph);
  std::map<Key, std::vector<ValueId>> seen;
  for (const Node& node : graph.nodes()) {
    Key key{node.op, rebuild.now(node.inputs), node.attributes, node.phase, node.block};
    const auto [found, is_new] = seen.emplace(std::move(key), std::vector<ValueId>());
    if (is_new) {
      rebuild.copy(node);
      found->second = rebuild.now(node.outputs);
      continue;
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      rebuild.replace(node.outputs[k], found->second[k]);
    }
  }
  return rebuild.finish();
}

}  // namespace trireme
