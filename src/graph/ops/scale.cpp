// scale: every element times a constant.
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::scale {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  return rules::like_first(s);
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = s.number("factor") * in[0].data[i];
  }
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {q.builder.add1("scale", {q.outputs[0]}, q.node.attributes)};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "scale",
           .summary = "y = factor x",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {{"factor", 1.0, false}},
           .infer = infer,
           .factors = rules::elementwise_factors,
           .linear = Linear::Joint,
           .work = rules::per_element<1>,
           .gradient = gradient,
           .in_place = {{0, 0}},
           .reference = reference}};
}

}  // namespace trireme::ops::scale
