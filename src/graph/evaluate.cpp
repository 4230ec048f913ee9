#include "graph/evaluate.h"

#include <cmath>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme {
namespace {

double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::F64:
      return value;
    case DType::F32:
      return static_cast<float>(value);
    case DType::F16:
      return to_f32(to_f16(static_cast<float>(value)));
    case DType::BF16:
      return to_f32(to_bf16(static_cast<float>(value)));
    default:
      return std::nearbyint(value);
  }
}

}  // namespace

void round_to(DType dtype, Dense& values) {
  for (double& value : values.data) {
    value = rounded(dtype, value);
  }
}

std::vector<Dense> evaluate(const Signature& signature, const std::vector<Dense>& inputs) {
  const std::vector<TensorType> types = signature.op->infer(signature);
  std::vector<Dense> results;
  results.reserve(types.size());
  for (const TensorType& type : types) {
    results.emplace_back(type.shape);
  }
  signature.op->reference(signature, inputs, results);
  for (std::size_t k = 0; k < types.size(); ++k) {
    round_to(types[k].dtype, results[k]);
  }
  return results;
}

std::vector<Dense> evaluate(const Graph& graph, const Leaves& leaves) {
  IndexedVector<ValueId, Dense> values(graph.values().size());
  for (const ValueId id : values.ids()) {
    const Value& value = graph.value(id);
    if (value.origin == Origin::Node) {
      continue;
    }
    const auto it = leaves.find(value.name);
    if (it == leaves.end() || it->second.shape != value.type.shape) {
      throw Error(ErrorKind::Usage, fmt::format("graph {}: %{} needs a value of type {}",
                                                graph.name(), value.name, to_text(value.type)));
    }
    values[id] = it->second;
    round_to(value.type.dtype, values[id]);
  }
  for (const Node& node : graph.nodes()) {
    std::vector<Dense> inputs;
    inputs.reserve(node.inputs.size());
    for (const ValueId input : node.inputs) {
      inputs.push_back(values[input]);
    }
    std::vector<Dense> results = evaluate(signature_of(graph, node), inputs);
    for (std::size_t k = 0; k < results.size(); ++k) {
      values[node.outputs[k]] = std::move(results[k]);
    }
  }
  return std::move(values).items();
}

}  // namespace trireme
