// Fuses groups of element-wise nodes. A node joins its readers' group if all of them are in the same one; so only the
// last node of a group is read from outside, and the fused node can take its place. One backward sweep finds all
// groups, because readers come later.
//
// A group is confined to one run of nodes of the same phase and block, without messages to or from other stages: sums
// over micro-batches accumulate as they arrive. Fused at the end, they would keep all parts until then.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "autodiff/rebuild.h"
#include "graph/fused.h"
#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// A group is identified by its last node; a node that is fused with nothing is its own group.
constexpr std::size_t kReadFromOutside = static_cast<std::size_t>(-1);

bool may_join(const Graph& graph, const Node& node) {
  const TensorType& result = graph.value(node.outputs[0]).type;
  return can_be_fused(*node.op) && node.phase != Phase::Update &&
         graph.value(node.inputs[0]).type == result;
}

bool is_message(const Node& node) {
  return node.op->name == "send" || node.op->name == "receive";
}

/// Whether it is a collective on values that exist from the start: it can start anywhere, but belongs where its result
/// is needed.
bool may_be_early(const Graph& graph, const Node& node) {
  return node.op->communicates && !is_message(node) &&
         std::ranges::all_of(
             node.inputs, [&](ValueId input) { return graph.value(input).origin != Origin::Node; });
}

/// By node, the number of its run.
std::vector<std::size_t> stretches_of(const Graph& graph) {
  std::vector<std::size_t> numbers;
  std::size_t number = 0;
  const Node* before = nullptr;
  for (const Node& node : graph.nodes()) {
    if (may_be_early(graph, node)) {
      numbers.push_back(number);
      continue;
    }
    const bool goes_on = before != nullptr && before->phase == node.phase &&
                         before->block == node.block && !is_message(node);
    number += goes_on ? 0 : 1;
    numbers.push_back(number);
    before = &node;
  }
  return numbers;
}

/// By node, the group.
class Grouping {
 public:
  explicit Grouping(const Graph& graph)
      : graph_(graph),
        stretch_(stretches_of(graph)),
        group_(graph.nodes().size()),
        readers_(graph.values().size()) {}

  std::vector<std::size_t> run() {
    for (const Output& output : graph_.outputs()) {
      readers_[at(output.value)] = kReadFromOutside;
    }
    for (const Update& update : graph_.updates()) {
      readers_[at(update.value)] = kReadFromOutside;
    }
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      group_[n] = group_of(n);
      for (const ValueId input : graph_.nodes()[n].inputs) {
        note(input, group_[n]);
      }
    }
    return std::move(group_);
  }

 private:
  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }

  [[nodiscard]] std::size_t group_of(std::size_t n) const {
    const Node& node = graph_.nodes()[n];
    const std::optional<std::size_t> readers = readers_[at(node.outputs[0])];
    if (!readers || *readers == kReadFromOutside || !may_join(graph_, node)) {
      return n;
    }
    const Node& last = graph_.nodes()[*readers];
    return may_join(graph_, last) && alike(n, *readers) ? *readers : n;
  }
  [[nodiscard]] bool alike(std::size_t a, std::size_t b) const {
    const auto type = [&](std::size_t n) {
      return graph_.value(graph_.nodes()[n].outputs[0]).type;
    };
    return stretch_[a] == stretch_[b] && type(a) == type(b);
  }

  void note(ValueId value, std::size_t group) {
    std::optional<std::size_t>& readers = readers_[at(value)];
    readers = !readers || *readers == group ? group : kReadFromOutside;
  }

  const Graph& graph_;
  std::vector<std::size_t> stretch_;
  std::vector<std::size_t> group_;
  std::vector<std::optional<std::size_t>>
      readers_;  // by value: the group that all its readers are in
};

/// The program of one group and what it reads.
class FusedNode {
 public:
  FusedNode(const Graph& graph, const std::vector<const Node*>& nodes) {
    const TensorType& type = graph.value(nodes.back()->outputs[0]).type;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      steps_[nodes[k]->outputs[0]] = k;
    }
    // Inputs with all dimensions come first: they determine the node's type.
    for (const bool whole : {true, false}) {
      for (const Node* node : nodes) {
        collect(*node, [&](ValueId id) { return (graph.value(id).type == type) == whole; });
      }
    }
    for (const Node* node : nodes) {
      program_.push_back(step(*node));
    }
  }

  [[nodiscard]] const std::vector<ValueId>& inputs() const { return inputs_; }
  [[nodiscard]] std::string program() const { return to_text(program_); }

 private:
  template <class Wanted>
  void collect(const Node& node, Wanted wanted) {
    for (const ValueId input : node.inputs) {
      if (!steps_.contains(input) && wanted(input) &&
          std::ranges::find(inputs_, input) == inputs_.end()) {
        inputs_.push_back(input);
      }
    }
  }

  [[nodiscard]] FusedStep step(const Node& node) const {
    FusedStep step{.op = node.op, .operands = {}, .attributes = node.attributes};
    for (const ValueId input : node.inputs) {
      const auto inside = steps_.find(input);
      const auto place = std::ranges::find(inputs_, input) - inputs_.begin();
      step.operands.push_back(
          inside != steps_.end()
              ? FusedOperand{FusedOperand::Kind::Step, inside->second}
              : FusedOperand{FusedOperand::Kind::Input, static_cast<std::size_t>(place)});
    }
    return step;
  }

  std::map<ValueId, std::size_t> steps_;
  std::vector<ValueId> inputs_;
  FusedProgram program_;
};

void add_fused(Rebuild& rebuild, const Graph& graph, const std::vector<const Node*>& nodes) {
  const FusedNode fused(graph, nodes);
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
  const std::vector<std::size_t> group = Grouping(graph).run();
  std::map<std::size_t, std::vector<const Node*>> members;
  for (std::size_t n = 0; n < group.size(); ++n) {
    members[group[n]].push_back(&graph.nodes()[n]);
  }
  Rebuild rebuild(graph);
  for (const auto& [last, nodes] : members) {
    if (nodes.size() == 1) {
      rebuild.copy(*nodes.front());
    } else {
      add_fused(rebuild, graph, nodes);
    }
  }
  return rebuild.finish();
}

}  // namespace trireme
