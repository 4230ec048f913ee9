#include "graph/op_cases.h"

#include <cmath>

#include <fmt/format.h>

namespace trireme::testing {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    for (const auto& some : {basic_cases(), fused_cases(), optimizer_cases(), pack_cases(),
                             structure_cases(), transformer_cases()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return cases;
}

std::vector<TensorType> input_types(const OpCase& c, DType real) {
  std::vector<TensorType> types;
  const DType statistic = real == DType::F64 ? DType::F64 : DType::F32;
  for (const Operand& operand : c.inputs) {
    const DType dtype = operand.kind == Operand::Kind::Real    ? real
                        : operand.kind == Operand::Kind::Whole ? c.whole_type
                                                               : statistic;
    types.push_back({dtype, operand.shape});
  }
  return types;
}

std::vector<Dense> draw_inputs(const OpCase& c, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<Dense> inputs;
  for (const Operand& operand : c.inputs) {
    std::uniform_real_distribution<double> reals(operand.from, operand.to);
    Dense& input = inputs.emplace_back(operand.shape);
    for (double& element : input.data) {
      do {
        element = reals(generator);
      } while (std::abs(element) < operand.away);
      if (operand.kind == Operand::Kind::Whole) {
        element = std::floor(operand.from + (element - operand.from) /
                                                (operand.to - operand.from + 1e-9) *
                                                (operand.to - operand.from + 1));
      }
    }
  }
  return inputs;
}

Graph graph_of(const OpCase& c, DType real) {
  GraphBuilder builder("one");
  std::vector<ValueId> inputs;
  for (const TensorType& type : input_types(c, real)) {
    inputs.push_back(builder.parameter(fmt::format("in{}", inputs.size()), type));
  }
  std::size_t k = 0;
  for (const ValueId output : builder.add(c.op, inputs, c.attributes)) {
    builder.output(fmt::format("out{}", k++), output);
  }
  return builder.finish();
}

std::string describe(const OpCase& c) {
  return to_text(graph_of(c, DType::F64));
}

}  // namespace trireme::testing
