// fill: a constant everywhere.
#include <algorithm>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::fill {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  return {{parse_dtype(s.text("dtype")), Shape(s.integers("shape"))}};
}

Factors factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {},
          .outputs = {rules::letters_for(static_cast<int>(s.integers("shape").size()))},
          .unshardable = {}});
}

Work work(const Signature& s) {
  return {.bytes = rules::bytes_of_operands(s)};
}

void reference(const Signature& s, std::span<const Dense>, std::span<Dense> out) {
  std::ranges::fill(out[0].data, s.number("value"));
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "fill",
           .summary = "value, in every element of a new tensor",
           .inputs = {},
           .outputs = {"y"},
           .attributes = {{"value", 0.0, false},
                          {"shape", std::vector<std::int64_t>()},
                          {"dtype", std::string("f32")}},
           .infer = infer,
           .factors = factors,
           .part = rules::part_of_shape,
           .work = work,
           .reference = reference}};
}

}  // namespace trireme::ops::fill
