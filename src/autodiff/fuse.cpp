// Fuses the groups of element-wise nodes found by fusion_groups.h.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "autodiff/fusion_groups.h"
#include "autodiff/rebuild.h"
#include "base/indexed_vector.h"
#include "graph/fused.h"
#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// The program of one group.
class FusedNode {
 public:
  FusedNode(const std::vector<const Node*>& nodes, std::vector<ValueId> inputs)
      : inputs_(std::move(inputs)) {
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      steps_[nodes[k]->outputs[0]] = k;
    }
    for (const Node* node : nodes) {
      program_.push_back(step(*node));
    }
  }

  [[nodiscard]] const std::vector<ValueId>& inputs() const { return inputs_; }
  [[nodiscard]] std::string program() const { return to_text(program_); }

 private:
  [[nodiscard]] FusedStep step(const Node& node) const {
    FusedStep step{.op = node.op, .operands = {}, .attributes = node.attributes};
    for (const ValueId input : node.inputs) {
      const auto inside = steps_.find(input);
      const auto place = std::ranges::find(inputs_, input) - inputs_.begin();
      step.operands.push_back(inside != steps_.end()
                                  ? FusedOperand{FusedOperand::Kind::Step, inside->second}
                                  : FusedOperand{FusedOperand::Kind::Input, position_of(place)});
    }
    return step;
  }

  std::map<ValueId, std::size_t> steps_;
  std::vector<ValueId> inputs_;
  FusedProgram program_;
};

void add_fused(Rebuild& rebuild, const Graph& graph, const std::vector<const Node*>& nodes,
               std::vector<ValueId> inputs) {
  const FusedNode fused(nodes, std::move(inputs));
  const Node& last = *nodes.back();
  GraphBuilder& builder = rebuild.builder();
  builder.set_phase(last.phase);
  builder.set_block(last.block);
  const ValueId result =
      builder.add1("fused", rebuild.now(fused.inputs()), {{"program", fused.program()}});
  builder.rename(result, graph.value(last.outputs[0]).name);
  rebuild.replace(last.outputs[0], result);
}

}  // namespace

Graph fuse_elementwise(const Graph& graph) {
  const Outline outline = outline_of(graph);
  Rebuild rebuild(graph);
  for (const std::vector<std::size_t>& members : members_of(fusion_groups(outline))) {
    if (members.empty()) {
      continue;
    }
    std::vector<const Node*> nodes;
    nodes.reserve(members.size());
    for (const std::size_t n : members) {
      nodes.push_back(&graph.nodes()[n]);
    }
    if (nodes.size() == 1) {
      rebuild.copy(*nodes.front());
    } else {
      add_fused(rebuild, graph, nodes, fused_inputs(outline, members));
    }
  }
  return rebuild.finish();
}

}  // namespace trireme
