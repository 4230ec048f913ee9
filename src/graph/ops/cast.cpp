// cast: the same numbers in another element type, rounded to the nearest value. Conversion to integers truncates, as in
// C; out-of-range values are undefined.
//
// Not linear: rounding the terms of a sum is not rounding the sum. A partial value is therefore reduced in its own
// type, before the cast.
#include <cmath>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::cast {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  return {{parse_dtype(s.text("to")), s.shape(0)}};
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const DType from = q.builder.type(q.node.inputs[0]).dtype;
  if (!is_float(from)) {
    return {{}};
  }
  return {q.builder.add1("cast", {q.outputs[0]}, {{"to", std::string(to_text(from))}})};
}

/// Only truncates to integers; the evaluator rounds to the element type.
void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const bool whole = !is_float(parse_dtype(s.text("to")));
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = whole ? std::trunc(in[0].data[i]) : in[0].data[i];
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "cast",
           .summary = "x in another element type",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {{"to", std::string("bf16"), false}},
           .infer = infer,
           .factors = rules::elementwise_factors,
           .work = rules::per_element<1>,
           .gradient = gradient,
           .reference = reference}};
}

}  // namespace trireme::ops::cast
