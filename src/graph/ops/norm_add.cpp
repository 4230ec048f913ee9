// layer_norm_backward_add, rms_norm_backward_add: the backward of a norm whose dx is added to another gradient of x, as
// in a residual connection: dx = addend + the norm's backward. Everything else follows the norm's own op.
#include <array>
#include <string_view>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::norm_add {
namespace {

struct Extended {
  std::string_view name;
  std::string_view of;
};
constexpr std::array kExtended{Extended{"layer_norm_backward_add", "layer_norm_backward"},
                               Extended{"rms_norm_backward_add", "rms_norm_backward"}};

/// The node of the norm alone.
Signature without_addend(const Signature& s) {
  Signature alone = s;
  alone.op = &op_named(s.op->name == kExtended[0].name ? kExtended[0].of : kExtended[1].of);
  alone.inputs.pop_back();
  return alone;
}

std::vector<TensorType> infer(const Signature& s) {
  const Signature alone = without_addend(s);
  std::vector<TensorType> results = alone.op->infer(alone);
  rules::require_same_type(s, 1, s.inputs.size() - 1);
  return results;
}

Factors factors(const Signature& s) {
  const Signature alone = without_addend(s);
  Factors found = alone.op->factors(alone);
  found.inputs.push_back(found.outputs[0]);
  return found;
}

Work work(const Signature& s) {
  const Signature alone = without_addend(s);
  return {.others = alone.op->work(alone).others + static_cast<double>(s.shape(1).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Signature alone = without_addend(s);
  alone.op->reference(alone, in.first(in.size() - 1), out);
  for (std::size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] += in.back().data[i];
  }
}

}  // namespace

std::vector<Op> rows() {
  Op layer{.name = kExtended[0].name,
           .summary = "gradients of layer_norm, dx added to another",
           .inputs = {"dy", "x", "gamma", "mean", "rstd", "addend"},
           .outputs = {"dx", "dgamma", "dbeta"},
           .infer = infer,
           .factors = factors,
           .work = work,
           .in_place = {{0, 5}, {0, 0}},
           .reference = reference};
  Op rms = layer;
  rms.name = kExtended[1].name;
  rms.summary = "gradients of rms_norm, dx added to another";
  rms.inputs = {"dy", "x", "gamma", "rstd", "addend"};
  rms.outputs = {"dx", "dgamma"};
  rms.in_place = {{0, 4}, {0, 0}};
  return {layer, rms};
}

}  // namespace trireme::ops::norm_add
