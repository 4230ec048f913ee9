// copy: a copy of a tensor in separate memory.
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::copy {
namespace {

Work work(const Signature& s) {
  return {.bytes = rules::bytes_of_operands(s)};
}

void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  out[0].data = in[0].data;
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {q.outputs[0]};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "copy",
           .summary = "y = x",
           .inputs = {"x"},
           .outputs = {"y"},
           .infer = rules::like_first,
           .factors = rules::elementwise_factors,
           .linear = Linear::Joint,
           .work = work,
           .gradient = gradient,
           .reference = reference}};
}

}  // namespace trireme::ops::copy
