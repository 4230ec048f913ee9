#include "autodiff/recompute_analysis.h"

#include <algorithm>

#include "base/indexed_vector.h"
#include "trireme/op.h"

namespace trireme {
namespace {

bool is_forward(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  return v.origin == Origin::Node && graph.node(v.producer).phase == Phase::Forward;
}

/// Whether this node's use of a forward result takes it out of the result's block.
bool takes_out(const Graph& graph, const Node& reader, ValueId value) {
  const Node& producer = graph.node(graph.value(value).producer);
  return reader.phase == Phase::Update ||
         (reader.phase == Phase::Forward && reader.block != producer.block);
}

IndexedVector<ValueId, bool> find_leaving(const Graph& graph) {
  IndexedVector<ValueId, bool> leaves(graph.values().size(), false);
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) {
      if (is_forward(graph, input) && takes_out(graph, node, input)) {
        leaves[input] = true;
      }
    }
  }
  for (const Output& output : graph.outputs()) {
    leaves[output.value] = true;
  }
  for (const Update& update : graph.updates()) {
    leaves[update.value] = true;
  }
  return leaves;
}

Bytes sum_of(const Graph& graph, const std::vector<bool>& values) {
  Bytes sum{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) {
      sum.count += size_of(graph.values()[i].type).count;
    }
  }
  return sum;
}

}  // namespace

RecomputeAnalysis::RecomputeAnalysis(const Graph& graph)
    : graph_(graph), leaves_block_(find_leaving(graph)) {
  for (const Node& node : graph.nodes()) {
    const Work work = work_of(graph, node);
    flops_.push_back(work.products + work.others);
    expensive_.push_back(work.products > 0 && node.op->name != "attention");
    if (node.phase == Phase::Forward && node.block >= 0 &&
        std::ranges::find(blocks_, node.block) == blocks_.end()) {
      blocks_.push_back(node.block);
    }
  }
}

bool RecomputeAnalysis::may_be_copied(ValueId value, const RecomputeOptions& options) const {
  if (!is_forward(graph_, value) || leaves_block_[value]) {
    return false;
  }
  const NodeId producer = graph_.value(value).producer;
  const std::int32_t block = graph_.node(producer).block;
  if (block < 0) {
    return false;
  }
  const auto other = options.blocks.find(block);
  const RecomputeMode mode = other == options.blocks.end() ? options.mode : other->second;
  return mode == RecomputeMode::Full ||
         (mode == RecomputeMode::Selective && !expensive_[producer.index]);
}

/// Backwards over the nodes, so that all readers of a result are seen before the node that produces it.
Recomputed RecomputeAnalysis::of(const RecomputeOptions& options) const {
  Recomputed result{.values = IndexedVector<ValueId, bool>(graph_.values().size(), false),
                    .nodes = std::vector<bool>(graph_.nodes().size(), false)};
  IndexedVector<ValueId, bool> kept(graph_.values().size(), false);
  for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
    const Node& node = graph_.nodes()[n];
    if (node.phase == Phase::Forward && !result.nodes[n]) {
      continue;
    }
    result.flops += result.nodes[n] ? flops_[n] : 0;
    for (const ValueId input : node.inputs) {
      if (may_be_copied(input, options)) {
        result.values[input] = true;
        result.nodes[graph_.value(input).producer.index] = true;
      } else {
        kept[input] = is_forward(graph_, input);
      }
    }
  }
  result.kept = sum_of(graph_, kept.items());
  return result;
}

}  // namespace trireme
