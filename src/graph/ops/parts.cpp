// parts: tensors stacked along a new first dimension, whose sum is x.
//
//   y[0] = x, y[i] = 0 for the others
//
// Any terms with the right sum work: if x is partial along the mesh axis `axis`, they are the devices' terms, without
// communication. The following nodes see each device's term before the reduction, which compressing a gradient needs.
#include <algorithm>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::parts {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  s.require(s.integer("count") >= 1, "there must be a part at least");
  std::vector<std::int64_t> dims = s.shape(0).dims();
  dims.insert(dims.begin(), s.integer("count"));
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

Factors factors(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(0).rank());
  return rules::factors_by_letters(s, {.inputs = {x}, .outputs = {'P' + x}, .unshardable = "P"});
}

Attributes part(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  attributes["count"] = ranges.back().length;  // the factor P is the last
  return attributes;
}

void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  std::ranges::copy(in[0].data, out[0].data.begin());
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "parts",
           .summary = "y[count,..]: tensors whose sum is x[..]; x itself, and zeros",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {{"count", std::int64_t{1}, false}, {"axis", std::string()}},
           .infer = infer,
           .factors = factors,
           .linear = Linear::Apart,
           .part = part,
           .work = rules::per_element<0>,
           .reference = reference}};
}

}  // namespace trireme::ops::parts
