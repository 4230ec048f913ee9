// Functions of one number, applied to every element: y = f(x). Each row of graph/unary_functions.h also defines
// NAME_backward, which multiplies the result's gradient by f'(x).
#include <cmath>
#include <numbers>

#include "graph/ops/families.h"
#include "graph/unary_functions.h"
#include "trireme/op_rules.h"

namespace trireme::ops::unary {
namespace {

/// The value and the slope, by their definitions and in double.
template <UnaryFunction kFunction>
struct Reference;

template <>
struct Reference<UnaryFunction::Exp> {
  static double value(double x) { return std::exp(x); }
  static double slope(double x) { return std::exp(x); }
};

/// By its tanh form, as in GPT-2: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
template <>
struct Reference<UnaryFunction::Gelu> {
  static constexpr double kCubic = 0.044715;
  static double inner(double x) {
    return std::sqrt(2 / std::numbers::pi) * (x + kCubic * x * x * x);
  }
  static double value(double x) { return 0.5 * x * (1 + std::tanh(inner(x))); }
  static double slope(double x) {
    const double t = std::tanh(inner(x));
    const double inner_slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * kCubic * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope;
  }
};

template <>
struct Reference<UnaryFunction::Log> {
  static double value(double x) { return std::log(x); }
  static double slope(double x) { return 1 / x; }
};

template <>
struct Reference<UnaryFunction::Relu> {
  static double value(double x) { return x > 0 ? x : 0; }
  static double slope(double x) { return x > 0 ? 1 : 0; }
};

template <>
struct Reference<UnaryFunction::Sigmoid> {
  static double value(double x) { return 1 / (1 + std::exp(-x)); }
  static double slope(double x) { return value(x) * (1 - value(x)); }
};
using Sigmoid = Reference<UnaryFunction::Sigmoid>;

template <>
struct Reference<UnaryFunction::Silu> {
  static double value(double x) { return x * Sigmoid::value(x); }
  static double slope(double x) { return Sigmoid::value(x) * (1 + x * (1 - Sigmoid::value(x))); }
};

template <>
struct Reference<UnaryFunction::Softplus> {
  static double value(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
  static double slope(double x) { return Sigmoid::value(x); }
};

template <>
struct Reference<UnaryFunction::Sqrt> {
  static double value(double x) { return std::sqrt(x); }
  static double slope(double x) { return 0.5 / std::sqrt(x); }
};

template <>
struct Reference<UnaryFunction::Square> {
  static double value(double x) { return x * x; }
  static double slope(double x) { return 2 * x; }
};

template <>
struct Reference<UnaryFunction::Tanh> {
  static double value(double x) { return std::tanh(x); }
  static double slope(double x) { return 1 - std::tanh(x) * std::tanh(x); }
};

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  return rules::like_first(s);
}

std::vector<TensorType> infer_backward(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_type(s, 0, 1);
  return rules::like_first(s);
}

template <UnaryFunction kFunction>
void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = Reference<kFunction>::value(in[0].data[i]);
  }
}

template <UnaryFunction kFunction>
void reference_backward(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = Reference<kFunction>::slope(in[0].data[i]) * in[1].data[i];
  }
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {
      q.builder.add1(std::string(q.node.op->name) + "_backward", {q.node.inputs[0], q.outputs[0]})};
}

/// The two ops of a function: itself and its backward.
template <UnaryFunction kFunction>
void add_ops(const UnaryRow& row, std::vector<Op>& ops) {
  ops.push_back({.name = row.op,
                 .summary = row.summary,
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .infer = infer,
                 .factors = rules::elementwise_factors,
                 .work = rules::per_element<1>,
                 .gradient = gradient,
                 .in_place = {{0, 0}},
                 .reference = reference<kFunction>});
  ops.push_back({.name = row.backward,
                 .summary = "dx = f'(x) dy",
                 .inputs = {"x", "dy"},
                 .outputs = {"dx"},
                 .infer = infer_backward,
                 .factors = rules::elementwise_factors,
                 .work = rules::per_element<2>,
                 .in_place = {{0, 1}, {0, 0}},
                 .reference = reference_backward<kFunction>});
}

}  // namespace

std::vector<Op> rows() {
  std::vector<Op> ops;
  for_each_unary_function(
      [&]<UnaryFunction kFunction>(const UnaryRow& row) { add_ops<kFunction>(row, ops); });
  return ops;
}

}  // namespace trireme::ops::unary
