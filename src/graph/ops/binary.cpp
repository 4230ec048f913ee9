// Element-wise functions of two operands. The second operand may lack the first's leading dimensions: a bias [C] is
// added to every row of [B,T,C], a scalar [] to everything.
#include <algorithm>
#include <cmath>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::binary {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_dtype(s, 0, 1);
  const std::vector<std::int64_t>& a = s.shape(0).dims();
  const std::vector<std::int64_t>& b = s.shape(1).dims();
  const bool fits = b.size() <= a.size() && std::equal(b.rbegin(), b.rend(), a.rbegin());
  s.require(fits, "b's dimensions must be the last ones of a");
  return rules::like_first(s);
}

double add(double a, double b) {
  return a + b;
}
double subtract(double a, double b) {
  return a - b;
}
double multiply(double a, double b) {
  return a * b;
}
double divide(double a, double b) {
  return a / b;
}
double larger(double a, double b) {
  return std::max(a, b);
}
double smaller(double a, double b) {
  return std::min(a, b);
}

template <double (*kFunction)(double, double)>
void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t period = in[1].data.size();
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = kFunction(in[0].data[i], in[1].data[i % period]);
  }
}

const Shape& shape_of_b(const GradientQuery& q) {
  return q.builder.shape(q.node.inputs[1]);
}

std::vector<ValueId> add_gradient(GradientQuery& q) {
  std::vector<ValueId> gradients{q.outputs[0], {}};
  if (q.wanted[1]) {
    gradients[1] = rules::sum_to(q.builder, q.outputs[0], shape_of_b(q));
  }
  return gradients;
}

std::vector<ValueId> subtract_gradient(GradientQuery& q) {
  std::vector<ValueId> gradients = add_gradient(q);
  if (q.wanted[1]) {
    gradients[1] = q.builder.add1("scale", {gradients[1]}, {{"factor", -1.0}});
  }
  return gradients;
}

std::vector<ValueId> multiply_gradient(GradientQuery& q) {
  std::vector<ValueId> gradients(2);
  if (q.wanted[0]) {
    gradients[0] = q.builder.add1("multiply", {q.outputs[0], q.node.inputs[1]});
  }
  if (q.wanted[1]) {
    const ValueId product = q.builder.add1("multiply", {q.outputs[0], q.node.inputs[0]});
    gradients[1] = rules::sum_to(q.builder, product, shape_of_b(q));
  }
  return gradients;
}

// d(a/b) = da / b - (a/b) db / b
std::vector<ValueId> divide_gradient(GradientQuery& q) {
  const ValueId over_b = q.builder.add1("divide", {q.outputs[0], q.node.inputs[1]});
  std::vector<ValueId> gradients{over_b, {}};
  if (q.wanted[1]) {
    const ValueId product = q.builder.add1("multiply", {over_b, q.node.outputs[0]});
    const ValueId summed = rules::sum_to(q.builder, product, shape_of_b(q));
    gradients[1] = q.builder.add1("scale", {summed}, {{"factor", -1.0}});
  }
  return gradients;
}

template <double (*kFunction)(double, double)>
Op row(std::string_view name, std::string_view summary, Linear linear,
       std::vector<ValueId> (*gradient)(GradientQuery&)) {
  return {.name = name,
          .summary = summary,
          .inputs = {"a", "b"},
          .outputs = {"y"},
          .infer = infer,
          .factors = rules::elementwise_factors,
          .linear = linear,
          .work = rules::per_element<1>,
          .gradient = gradient,
          .in_place = {{0, 0}, {0, 1}},
          .reference = reference<kFunction>};
}

}  // namespace

std::vector<Op> rows() {
  return {row<add>("add", "y = a + b", Linear::Joint, add_gradient),
          row<subtract>("subtract", "y = a - b", Linear::Joint, subtract_gradient),
          row<multiply>("multiply", "y = a b", Linear::Each, multiply_gradient),
          row<divide>("divide", "y = a / b", Linear::No, divide_gradient),
          row<larger>("maximum", "y = max(a, b)", Linear::No, nullptr),
          row<smaller>("minimum", "y = min(a, b)", Linear::No, nullptr)};
}

}  // namespace trireme::ops::binary
