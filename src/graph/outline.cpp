#include "graph/outline.h"

#include <algorithm>

#include "base/text.h"
#include "trireme/op.h"

namespace trireme {
namespace {

std::int64_t integer_or(const Attributes& attributes, std::string_view name,
                        std::int64_t otherwise) {
  const auto it = attributes.find(name);
  return it == attributes.end() ? otherwise : std::get<std::int64_t>(it->second);
}

}  // namespace

std::int32_t TypeNumbers::of(const TensorType& type) {
  return numbers_
      .try_emplace({type.dtype, type.shape.dims()}, static_cast<std::int32_t>(numbers_.size()))
      .first->second;
}

ValueId Outline::add_value(const Value& value) {
  values.push_back(value);
  return {static_cast<std::int32_t>(values.size()) - 1};
}

void Outline::add_node(Node node, std::span<const ValueId> inputs_read,
                       std::span<const ValueId> outputs_made) {
  node.operands = static_cast<std::uint32_t>(operands.size());
  node.inputs = static_cast<std::uint32_t>(inputs_read.size());
  node.outputs = static_cast<std::uint32_t>(outputs_made.size());
  operands.insert(operands.end(), inputs_read.begin(), inputs_read.end());
  operands.insert(operands.end(), outputs_made.begin(), outputs_made.end());
  nodes.push_back(node);
}

bool is_sum(const Op& op, const Attributes& attributes) {
  if (op.name != "fused") {
    return op.name == "add";
  }
  const std::vector<std::string_view> steps =
      split(std::get<std::string>(attributes.at("program")), ';');
  return std::ranges::all_of(steps,
                             [](std::string_view step) { return trim(step).starts_with("add("); });
}

Outline::Node outline_node(const Node& node) {
  Outline::Node row;
  row.op = node.op;
  row.phase = node.phase;
  row.block = node.block;
  row.is_collective = node.op->communicates && node.attributes.contains("group");
  row.is_sum = is_sum(*node.op, node.attributes);
  row.tag = node.inputs.empty() ? integer_or(node.attributes, "tag", -1) : -1;
  row.until = integer_or(node.attributes, "until", -1);
  return row;
}

Outline outline_of(const Graph& graph) {
  Outline outline;
  TypeNumbers types;
  outline.values.reserve(graph.values().size());
  outline.nodes.reserve(graph.nodes().size());
  for (const Value& value : graph.values()) {
    outline.add_value(
        {.bytes = size_of(value.type).count, .type = types.of(value.type), .origin = value.origin});
  }
  for (const Node& node : graph.nodes()) {
    outline.add_node(outline_node(node), node.inputs, node.outputs);
  }
  for (const Output& output : graph.outputs()) {
    outline.outputs.push_back(output.value);
  }
  outline.updates = graph.updates();
  return outline;
}

}  // namespace trireme
