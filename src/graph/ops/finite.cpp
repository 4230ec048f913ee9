// all_finite, select: what loss scaling decides with. A step whose gradients overflowed is not taken.
//
//   all_finite: 1 if no element of any input is infinite or NaN, else 0
//   select:     a if the condition is not 0, else b, all of it
#include <algorithm>
#include <cmath>

#include "graph/ops/families.h"
#include "graph/rules.h"

namespace trireme::ops {
namespace {

std::vector<TensorType> infer_all_finite(const Signature& s) {
  for (std::size_t k = 0; k < s.inputs.size(); ++k) {
    rules::require_float(s, k);
  }
  return {{DType::F32, Shape{}}};
}

/// All are finite if those of every part are: the least of the parts' answers.
Factors all_finite_factors(const Signature& s) {
  Factors result{.factors = {}, .inputs = {}, .outputs = {{}}};
  for (const TensorType& input : s.inputs) {
    Factors::Dims& dims = result.inputs.emplace_back();
    for (const std::int64_t size : input.shape.dims()) {
      dims.push_back({static_cast<std::int32_t>(result.factors.size())});
      result.factors.push_back({size, Factor::Split::Minimum});
    }
  }
  return result;
}

Work all_finite_work(const Signature& s) {
  double elements = 0;
  for (const TensorType& input : s.inputs) {
    elements += static_cast<double>(input.shape.element_count());
  }
  return {.others = elements, .bytes = rules::bytes_of_operands(s)};
}

void reference_all_finite(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const bool all = std::ranges::all_of(in, [](const Dense& x) {
    return std::ranges::all_of(x.data, [](double element) { return std::isfinite(element); });
  });
  out[0].data[0] = all ? 1 : 0;
}

// select: condition, a, b -> y

std::vector<TensorType> infer_select(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_rank(s, 0, 0);
  rules::require_same_type(s, 1, 2);
  return {s.inputs[1]};
}

Factors select_factors(const Signature& s) {
  const std::string a = rules::letters_for(s.shape(1).rank());
  return rules::factors_by_letters(s, {.inputs = {"", a, a}, .outputs = {a}, .whole = {}});
}

/// Reads only the one that it takes.
Work select_work(const Signature& s) {
  return {.bytes = 2 * static_cast<double>(size_of(s.inputs[1]).count)};
}

void reference_select(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  out[0].data = in[in[0].data[0] != 0 ? 1 : 2].data;
}

/// The one that was not taken gets 0.
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

}  // namespace

std::vector<Op> finite_ops() {
  return {{.name = "all_finite",
           .summary = "1 if no element is infinite or NaN, else 0",
           .inputs = {"xs..."},
           .outputs = {"ok"},
           .infer = infer_all_finite,
           .factors = all_finite_factors,
           .work = all_finite_work,
           .reference = reference_all_finite},
          {.name = "select",
           .summary = "y = a if the condition[] is not 0, else b",
           .inputs = {"condition", "a", "b"},
           .outputs = {"y"},
           .infer = infer_select,
           .factors = select_factors,
           .work = select_work,
           .gradient = select_gradient,
           .in_place = {{0, 2}},
           .reference = reference_select}};
}

}  // namespace trireme::ops
