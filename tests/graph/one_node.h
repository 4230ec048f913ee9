// Runs one op on given numbers, in f64, for tests of a single op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/evaluate.h"
#include "graph/numbers.h"

namespace trireme::testing {

/// How closely results in f64 have to agree with the expected ones.
inline constexpr double kClose = 1e-12;

/// An operand: its element type and its numbers.
struct Given {
  Dense value{};
  DType dtype = DType::F64;
};

/// The results of the op.
[[nodiscard]] inline std::vector<Dense> run_op(const std::string& op,
                                               const std::vector<Given>& inputs,
                                               const Attributes& attributes = {}) {
  GraphBuilder builder("one");
  std::vector<ValueId> ids;
  std::vector<Dense> values;
  for (const Given& given : inputs) {
    ids.push_back(
        builder.input("in" + std::to_string(ids.size()), {given.dtype, given.value.shape}));
    values.push_back(given.value);
  }
  (void)builder.add(op, ids, attributes);
  const Graph graph = builder.finish();
  return evaluate(signature_of(graph, graph.nodes().front()), values);
}

[[nodiscard]] inline Dense dense(const Shape& shape, std::vector<double> numbers) {
  Dense made(shape);
  made.data = std::move(numbers);
  return made;
}

/// Pseudorandom numbers, the same each time.
[[nodiscard]] inline Dense scattered(const Shape& shape, std::uint32_t salt = 0) {
  Dense made(shape);
  std::uint32_t state = 12345 + 7919 * salt;
  for (double& element : made.data) {
    state = state * 1664525U + 1013904223U;
    element = static_cast<double>(state >> 8U) / 8388608.0 - 1;
  }
  return made;
}

}  // namespace trireme::testing
