// Rows of 0 and 1 elements, of a partial byte, and of more than one byte; no dimension before the row, and two.
#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

Operand codes(const Shape& shape, double from, double to) {
  return {.shape = shape, .from = from, .to = to, .kind = Operand::Kind::Whole};
}

Operand scales(const Shape& shape) {
  return {.shape = shape, .from = 0.5, .to = 2, .kind = Operand::Kind::Statistic};
}

OpCase largest(const Shape& x, std::int64_t k) {
  return {"largest", {{x}}, {{"k", k}}};
}

OpCase parts(const Shape& x, std::int64_t count) {
  return {"parts", {{x}}, {{"count", count}, {"axis", std::string("data")}}};
}

/// Codes are 0, 1 and 2, never 3.
OpCase sum_ternary(const Shape& bits, const Shape& scale, std::int64_t size) {
  return {"sum_ternary", {codes(bits, 0, 2), scales(scale)}, {{"size", size}}, DType::U8};
}

OpCase sum_signs(const Shape& bits, const Shape& scale, std::int64_t size) {
  return {"sum_signs", {codes(bits, 0, 255), scales(scale)}, {{"size", size}}, DType::U8};
}

OpCase sum_bytes(const Shape& bytes, const Shape& scale) {
  return {"sum_bytes", {codes(bytes, -127, 127), scales(scale)}, {}, DType::I8};
}

}  // namespace

std::vector<OpCase> pack_cases() {
  return {
      largest({2, 3, 17}, 5),
      largest({9}, 9),
      largest({4, 1}, 1),
      largest({3, 7}, 0),
      largest({2, 0}, 0),
      {"pack_signs", {{{2, 3, 17}}}},
      {"pack_signs", {{{16}}}},
      {"pack_signs", {{{3, 1}}}},
      {"pack_signs", {{{2, 0}}}},
      {"pack_ternary", {{{2, 3, 17}}}},
      {"pack_ternary", {{{16}}}},
      {"pack_ternary", {{{3, 1}}}},
      {"pack_ternary", {{{2, 0}}}},
      {"pack_bytes", {{{2, 3, 17}}}},
      {"pack_bytes", {{{1}}}},
      {"pack_bytes", {{{3, 1}}}},
      {"pack_bytes", {{{2, 0}}}},
      sum_signs({3, 2, 3}, {3, 2}, 17),
      sum_signs({1, 2}, {1}, 16),
      sum_signs({4, 1}, {4}, 1),
      sum_signs({2, 3, 0}, {2, 3}, 0),
      sum_ternary({3, 2, 5}, {3, 2}, 17),
      sum_ternary({1, 4}, {1}, 16),
      sum_ternary({4, 1}, {4}, 1),
      sum_ternary({2, 3, 0}, {2, 3}, 0),
      sum_bytes({3, 2, 17}, {3, 2}),
      sum_bytes({1, 1}, {1}),
      sum_bytes({2, 3, 0}, {2, 3}),
      parts({5, 3}, 4),
      parts({7}, 1),
      parts({}, 3),
      parts({0, 3}, 2),
      {"orthonormal", {{{11, 3}}}},
      {"orthonormal", {{{2, 4}}}},
      {"orthonormal", {{{1, 1}}}},
      {"orthonormal", {{{0, 2}}}},
  };
}

}  // namespace trireme::testing
