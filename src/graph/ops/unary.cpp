// Element-wise functions of one operand: y = f(x). Each row also defines NAME_backward, which multiplies the result's
// gradient by f'(x).
#include <array>
#include <cmath>
#include <numbers>

#include "graph/ops/families.h"
#include "graph/rules.h"

namespace trireme::ops {
namespace {

double relu(double x) {
  return x > 0 ? x : 0;
}
double relu_slope(double x) {
  return x > 0 ? 1 : 0;
}

// The tanh approximation of GELU, as in GPT-2: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
constexpr double kGeluCubic = 0.044715;
double gelu_inner(double x) {
  return std::sqrt(2 / std::numbers::pi) * (x + kGeluCubic * x * x * x);
}
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(gelu_inner(x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(gelu_inner(x));
  const double inner_slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * kGeluCubic * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double sigmoid_slope(double x) {
  return sigmoid(x) * (1 - sigmoid(x));
}
double silu(double x) {
  return x * sigmoid(x);
}
double silu_slope(double x) {
  return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}
double softplus(double x) {
  return x > 30 ? x : std::log1p(std::exp(x));
}
double tanh_slope(double x) {
  return 1 - std::tanh(x) * std::tanh(x);
}
double sqrt_slope(double x) {
  return 0.5 / std::sqrt(x);
}
double square(double x) {
  return x * x;
}
double square_slope(double x) {
  return 2 * x;
}
double log_slope(double x) {
  return 1 / x;
}

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  return rules::like_first(s);
}

std::vector<TensorType> infer_backward(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_type(s, 0, 1);
  return rules::like_first(s);
}

template <double (*kFunction)(double)>
void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = kFunction(in[0].data[i]);
  }
}

template <double (*kSlope)(double)>
void reference_backward(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = kSlope(in[0].data[i]) * in[1].data[i];
  }
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {
      q.builder.add1(std::string(q.node.op->name) + "_backward", {q.node.inputs[0], q.outputs[0]})};
}

/// The two rows of a function: itself and its backward.
template <double (*kFunction)(double), double (*kSlope)(double)>
void add(std::vector<Op>& rows, std::string_view name, std::string_view backward,
         std::string_view summary) {
  rows.push_back({.name = name,
                  .summary = summary,
                  .inputs = {"x"},
                  .outputs = {"y"},
                  .infer = infer,
                  .factors = rules::elementwise_factors,
                  .work = rules::per_element<1>,
                  .gradient = gradient,
                  .in_place = {{0, 0}},
                  .reference = reference<kFunction>});
  rows.push_back({.name = backward,
                  .summary = "dx = f'(x) dy",
                  .inputs = {"x", "dy"},
                  .outputs = {"dx"},
                  .infer = infer_backward,
                  .factors = rules::elementwise_factors,
                  .work = rules::per_element<2>,
                  .in_place = {{0, 1}, {0, 0}},
                  .reference = reference_backward<kSlope>});
}

}  // namespace

std::vector<Op> unary_ops() {
  std::vector<Op> rows;
  add<std::exp, std::exp>(rows, "exp", "exp_backward", "y = e^x");
  add<gelu, gelu_slope>(rows, "gelu", "gelu_backward",
                        "y = x/2 (1 + tanh(0.797 (x + 0.0447 x^3)))");
  add<std::log, log_slope>(rows, "log", "log_backward", "y = ln x");
  add<relu, relu_slope>(rows, "relu", "relu_backward", "y = max(x, 0)");
  add<sigmoid, sigmoid_slope>(rows, "sigmoid", "sigmoid_backward", "y = 1 / (1 + e^-x)");
  add<silu, silu_slope>(rows, "silu", "silu_backward", "y = x / (1 + e^-x)");
  add<softplus, sigmoid>(rows, "softplus", "softplus_backward", "y = ln(1 + e^x)");
  add<std::sqrt, sqrt_slope>(rows, "sqrt", "sqrt_backward", "y = x^(1/2)");
  add<square, square_slope>(rows, "square", "square_backward", "y = x^2");
  add<std::tanh, tanh_slope>(rows, "tanh", "tanh_backward", "y = tanh x");
  return rows;
}

}  // namespace trireme::ops
