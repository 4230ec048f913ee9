// select, next_loss_scale: the decisions of loss scaling. A step whose gradients overflow is skipped.
//
//   select:          all of a if the condition is not 0, else all of b
//   next_loss_scale: the next step's scale, from this step's and the number of good steps since the last change
//
// If the step was finite, it counts as good; after `interval` good steps the scale doubles, up to `most`. If only the
// loss is finite, gradients overflowed: the scale halves, down to `least`, and `lowered` is 1. If it is `least`
// already, or if the loss itself is not finite, no scale helps: nothing changes and `lowered` is 0.
#include <algorithm>
#include <cmath>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::finite {
namespace {

// select: condition, a, b -> y

std::vector<TensorType> infer_select(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_rank(s, 0, 0);
  rules::require_same_type(s, 1, 2);
  return {s.inputs[1]};
}

Factors select_factors(const Signature& s) {
  const std::string a = rules::letters_for(s.shape(1).rank());
  return rules::factors_by_letters(s, {.inputs = {"", a, a}, .outputs = {a}, .unshardable = {}});
}

/// Reads only the selected one.
Work select_work(const Signature& s) {
  return {.bytes = 2 * static_cast<double>(size_of(s.inputs[1]).count)};
}

void reference_select(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  out[0].data = in[in[0].data[0] != 0 ? 1 : 2].data;
}

/// The one not selected gets 0.
std::vector<ValueId> select_gradient(GradientQuery& q) {
  const TensorType type = q.builder.type(q.outputs[0]);
  const ValueId condition = q.node.inputs[0];
  const ValueId zero = q.builder.add1(
      "fill", {},
      {{"value", 0.0}, {"shape", type.shape.dims()}, {"dtype", std::string(to_text(type.dtype))}});
  std::vector<ValueId> gradients(3);
  if (q.wanted[1]) {
    gradients[1] = q.builder.add1("select", {condition, q.outputs[0], zero});
  }
  if (q.wanted[2]) {
    gradients[2] = q.builder.add1("select", {condition, zero, q.outputs[0]});
  }
  return gradients;
}

// next_loss_scale: scale, good, finite, loss -> new_scale, new_good, lowered

std::vector<TensorType> infer_scale(const Signature& s) {
  rules::require_rank(s, 0, 0);
  s.require(s.inputs[0].dtype == DType::F32 || s.inputs[0].dtype == DType::F64,
            "scale must be f32[] or f64[]");
  for (std::size_t k = 1; k < s.inputs.size(); ++k) {
    rules::require_same_type(s, 0, k);
  }
  s.require(s.integer("interval") > 0, "interval must be above 0");
  s.require(s.number("least") > 0 && s.number("least") <= s.number("most"),
            "least must be above 0 and no more than most");
  return {s.inputs[0], s.inputs[0], s.inputs[0]};
}

Factors scale_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"", "", "", ""}, .outputs = {"", "", ""}, .unshardable = {}});
}

Work scale_work(const Signature& s) {
  return {.others = 2, .bytes = rules::bytes_of_operands(s)};
}

void reference_scale(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const double scale = in[0].data[0];
  const double good = in[1].data[0] + 1;
  const bool finite = in[2].data[0] != 0;
  const bool grows = finite && good >= static_cast<double>(s.integer("interval"));
  const double lower = std::max(s.number("least"), scale / 2);
  const bool lowered = !finite && std::isfinite(in[3].data[0]) && lower < scale;
  const double higher = std::max(scale, std::min(s.number("most"), scale * 2));
  out[0].data[0] = lowered ? lower : grows ? higher : scale;
  out[1].data[0] = lowered || grows ? 0 : finite ? good : in[1].data[0];
  out[2].data[0] = lowered ? 1 : 0;
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "select",
           .summary = "y = a if the condition[] is not 0, else b",
           .inputs = {"condition", "a", "b"},
           .outputs = {"y"},
           .infer = infer_select,
           .factors = select_factors,
           .work = select_work,
           .gradient = select_gradient,
           .in_place = {{0, 2}},
           .reference = reference_select},
          {.name = "next_loss_scale",
           .summary = "half the scale after an overflow, twice after enough finite steps",
           .inputs = {"scale", "good", "finite", "loss"},
           .outputs = {"new_scale", "new_good", "lowered"},
           .attributes = {{"interval", std::int64_t{2000}}, {"least", 1.0}, {"most", 0x1p24}},
           .infer = infer_scale,
           .factors = scale_factors,
           .work = scale_work,
           .in_place = {{0, 0}, {1, 1}},
           .reference = reference_scale}};
}

}  // namespace trireme::ops::finite
