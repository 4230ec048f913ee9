// Cases for every op, for the table-driven tests. A new op adds its cases to a file op_cases_*.cpp; a test fails for an
// op that has none.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "graph/evaluate.h"
#include "graph/numbers.h"
#include "trireme/op.h"

namespace trireme::testing {

/// How to draw an operand's elements.
struct Operand {
  Shape shape{};
  /// Reals in [from, to], none closer to 0 than `away` (kinks and poles), or integers in [from, to].
  double from = -1;
  double to = 1;
  double away = 0;
  /// Statistic: a real that is kept at least in f32.
  enum class Kind : std::uint8_t { Real, Whole, Statistic } kind = Kind::Real;
};

/// Integers in [from, to].
[[nodiscard]] inline Operand whole(const Shape& shape, double from, double to) {
  return {.shape = shape, .from = from, .to = to, .kind = Operand::Kind::Whole};
}

/// State, rates and sums of squares: at least f32.
[[nodiscard]] inline Operand statistic(const Shape& shape, double from, double to) {
  return {.shape = shape, .from = from, .to = to, .kind = Operand::Kind::Statistic};
}

struct OpCase {
  std::string op{};
  std::vector<Operand> inputs{};
  Attributes attributes{};
  /// The type of integer operands.
  DType whole_type = DType::I32;
};

/// "einsum(f64[2,3], f64[3,4]) equation=…": says which case failed.
[[nodiscard]] std::string describe(const OpCase& c);

[[nodiscard]] const std::vector<OpCase>& op_cases();

[[nodiscard]] std::vector<TensorType> input_types(const OpCase& c, DType real);
/// The same numbers each time.
[[nodiscard]] std::vector<Dense> draw_inputs(const OpCase& c, std::uint32_t seed = 1);
/// A graph of only this node; its leaves are called in0, in1, …
[[nodiscard]] Graph graph_of(const OpCase& c, DType real);

// One of these for each op_cases_*.cpp.
[[nodiscard]] std::vector<OpCase> basic_cases();
[[nodiscard]] std::vector<OpCase> fused_cases();
[[nodiscard]] std::vector<OpCase> optimizer_cases();
[[nodiscard]] std::vector<OpCase> pack_cases();
[[nodiscard]] std::vector<OpCase> structure_cases();
[[nodiscard]] std::vector<OpCase> transformer_cases();

}  // namespace trireme::testing
