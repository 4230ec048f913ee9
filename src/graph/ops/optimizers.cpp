// Optimizers: new parameters and state from old ones, a gradient and a learning rate. With d = g_scale g (so clipping
// and loss scaling need no extra pass):
//
//   sgd       p' = p - lr (d + decay p)
//   momentum  m' = momentum m + (d + decay p)
//             p' = p - lr m',  nesterov: p' = p - lr (d + decay p + momentum m')
//   adagrad   s' = s + (d + decay p)^2,  p' = p - lr (d + decay p) / (sqrt(s') + epsilon)
//   adamw     m' = beta1 m + (1 - beta1) d,  v' = beta2 v + (1 - beta2) d^2
//             p' = p - lr (m^ / (sqrt(v^) + epsilon) + decay p)
//             with m^ = m' / (1 - beta1^t), v^ = v' / (1 - beta2^t); t is step, which counts from 1. If a step
//             has several rounds of updates, it is their count: t = (step - 1) rounds + round + 1
//             adamw_rounded also returns p' in another type: a parameter, from its master copy p
//   lion      p' = p - lr (sign(beta1 m + (1 - beta1) d) + decay p),  m' = beta2 m + (1 - beta2) d
//             (Chen et al., 2023)
//
// A g_scale that is 0 or not finite skips the step: every result is the old value, regardless of the gradient.
// clip_scale returns 0 if the gradients' norm is not finite.
//
// Gradients have the parameter's type or f32; for a parameter in f32, which may be the master copy of a 16-bit one,
// they may be bf16 or f16. State is f32, or f64 for a parameter in f64. lr and g_scale are f32; they may be f64 if
// parameter and gradient are.
#include <algorithm>
#include <cmath>

#include "graph/ops/families.h"
#include "graph/ops/optimizer_step.h"
#include "trireme/op_rules.h"

namespace trireme::ops::optimizers {
namespace {

using Inputs = std::span<const Dense>;
using Results = std::span<Dense>;

/// One element of a step: reads operands and writes results at one index.
using Element = void (*)(const Signature&, Inputs, Results, std::size_t);

/// Skips the step, or processes every element.
template <Element kElement>
void reference_step(const Signature& s, Inputs in, Results out) {
  if (keeps_old(in, out)) {
    return;
  }
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    kElement(s, in, out, i);
  }
}

/// d + decay p
double decayed(const Signature& s, Inputs in, std::size_t i) {
  return in.back().data[0] * in[1].data[i] + s.number("decay") * in[0].data[i];
}

void sgd(const Signature& s, Inputs in, Results out, std::size_t i) {
  const double lr = in[2].data[0];
  out[0].data[i] = in[0].data[i] - lr * decayed(s, in, i);
}

void momentum(const Signature& s, Inputs in, Results out, std::size_t i) {
  const double lr = in[3].data[0];
  const double g = decayed(s, in, i);
  const double m = s.number("momentum") * in[2].data[i] + g;
  out[0].data[i] = in[0].data[i] - lr * (s.flag("nesterov") ? g + s.number("momentum") * m : m);
  out[1].data[i] = m;
}

void adagrad(const Signature& s, Inputs in, Results out, std::size_t i) {
  const double lr = in[3].data[0];
  const double g = decayed(s, in, i);
  const double sum = in[2].data[i] + g * g;
  out[0].data[i] = in[0].data[i] - lr * g / (std::sqrt(sum) + s.number("epsilon"));
  out[1].data[i] = sum;
}

void adamw(const Signature& s, Inputs in, Results out, std::size_t i) {
  const double lr = in[4].data[0];
  const auto rounds = static_cast<double>(s.integer("rounds"));
  const double step = (in[5].data[0] - 1) * rounds + static_cast<double>(s.integer("round")) + 1;
  const double g = in[6].data[0] * in[1].data[i];
  const double beta1 = s.number("beta1");
  const double beta2 = s.number("beta2");
  const double m = beta1 * in[2].data[i] + (1 - beta1) * g;
  const double v = beta2 * in[3].data[i] + (1 - beta2) * g * g;
  const double m_hat = m / (1 - std::pow(beta1, step));
  const double v_hat = v / (1 - std::pow(beta2, step));
  const double p = in[0].data[i];
  out[0].data[i] =
      p - lr * (m_hat / (std::sqrt(v_hat) + s.number("epsilon")) + s.number("decay") * p);
  out[1].data[i] = m;
  out[2].data[i] = v;
}

void lion(const Signature& s, Inputs in, Results out, std::size_t i) {
  const double lr = in[3].data[0];
  const double g = in[4].data[0] * in[1].data[i];
  const double beta1 = s.number("beta1");
  const double beta2 = s.number("beta2");
  const double p = in[0].data[i];
  const double m = in[2].data[i];
  const double along = beta1 * m + (1 - beta1) * g;
  const double sign = along > 0 ? 1 : along < 0 ? -1 : 0;
  out[0].data[i] = p - lr * (sign + s.number("decay") * p);
  out[1].data[i] = beta2 * m + (1 - beta2) * g;
}

// adamw_rounded: adamw, and new_p in the type `to`, which the evaluator rounds to.

std::vector<TensorType> infer_rounded(const Signature& s) {
  Signature step = s;
  step.op = &op_named("adamw");
  std::vector<TensorType> results = step.op->infer(step);
  const DType to = parse_dtype(s.text("to"));
  s.require(is_float(to), "to must be a floating-point type");
  results.push_back({to, s.shape(0)});
  return results;
}

void adamw_rounded(const Signature& s, Inputs in, Results out) {
  reference_step<adamw>(s, in, out.first(3));
  out[3] = out[0];
}

// sum_squares: a tensor's contribution to the global norm.

std::vector<TensorType> infer_sum(const Signature& s) {
  rules::require_float(s, 0);
  return {{rules::statistics_type(s.inputs[0].dtype), {}}};
}

Factors sum_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {rules::letters_for(s.shape(0).rank())}, .outputs = {""}, .unshardable = {}});
}

Work sum_work(const Signature& s) {
  return {.others = 2 * static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

void reference_sum(const Signature&, Inputs in, Results out) {
  for (const double x : in[0].data) {
    out[0].data[0] += x * x;
  }
}

// clip_scale: the factor that brings the gradients' norm within the limit.

std::vector<TensorType> infer_clip(const Signature& s) {
  s.require(s.number("limit") > 0, "limit must be above 0");
  DType dtype = DType::F64;
  for (const TensorType& sum : s.inputs) {
    s.require(sum.shape.rank() == 0 && is_float(sum.dtype) &&
                  sum.dtype == rules::statistics_type(sum.dtype),
              "sums must be f32[] or f64[]");
    dtype = sum.dtype == DType::F32 ? DType::F32 : dtype;
  }
  return {{dtype, {}}, {dtype, {}}, {dtype, {}}};
}

Factors clip_factors(const Signature& s) {
  return rules::factors_by_letters(s, {.inputs = std::vector<std::string>(s.inputs.size()),
                                       .outputs = {"", "", ""},
                                       .unshardable = {}});
}

Work clip_work(const Signature& s) {
  return {.others = static_cast<double>(s.inputs.size()) + 2, .bytes = rules::bytes_of_operands(s)};
}

void reference_clip(const Signature& s, Inputs in, Results out) {
  double sum = 0;
  for (const Dense& part : in) {
    sum += part.data[0];
  }
  const double norm = std::sqrt(sum);
  const bool finite = std::isfinite(norm);
  out[0].data[0] = finite ? std::min(1.0, s.number("limit") / norm) : 0;
  out[1].data[0] = norm;
  out[2].data[0] = finite ? 1 : 0;
}

/// kFlops: per element.
template <Element kElement, int kFlops>
Op row(std::string_view name, std::string_view summary, const std::vector<std::string_view>& states,
       const std::vector<AttributeRow>& attributes) {
  Op op{.name = name,
        .summary = summary,
        .inputs = {"p", "g"},
        .outputs = {"new_p"},
        .attributes = attributes,
        .infer = infer_optimizer_step,
        .factors = rules::elementwise_factors,
        .work = rules::per_element<kFlops>,
        .in_place = {{0, 0}},
        .reference = reference_step<kElement>};
  for (const std::string_view state : states) {
    op.in_place.push_back({op.outputs.size(), op.inputs.size()});
    op.inputs.push_back(state);
    op.outputs.emplace_back(state == "m" ? "new_m" : state == "v" ? "new_v" : "new_s");
  }
  op.inputs.emplace_back("lr");
  if (name == "adamw") {
    op.inputs.emplace_back("step");
  }
  op.inputs.emplace_back("g_scale");
  return op;
}

Op rounded(Op op) {
  op.name = "adamw_rounded";
  op.summary = "adamw, and the new parameter rounded to another type";
  op.outputs.emplace_back("rounded");
  op.attributes.push_back({"to", std::string("bf16")});
  op.infer = infer_rounded;
  op.reference = adamw_rounded;
  return op;
}

std::vector<Op> norm_rows() {
  return {{.name = "sum_squares",
           .summary = "the sum of all squares, in f32 at least",
           .inputs = {"x"},
           .outputs = {"sum"},
           .infer = infer_sum,
           .factors = sum_factors,
           .work = sum_work,
           .reference = reference_sum},
          {.name = "clip_scale",
           .summary = "norm = sqrt(sum of sums); scale = min(1, limit / norm), 0 if not finite",
           .inputs = {"sums..."},
           .outputs = {"scale", "norm", "finite"},
           .attributes = {{"limit", 1.0}},
           .infer = infer_clip,
           .factors = clip_factors,
           .work = clip_work,
           .reference = reference_clip}};
}

}  // namespace

std::vector<Op> rows() {
  std::vector<Op> rows = norm_rows();
  rows.push_back(row<sgd, 5>("sgd", "new_p = p - lr (g + decay p)", {}, {{"decay", 0.0}}));
  rows.push_back(
      row<momentum, 8>("momentum", "a step along a decaying sum of gradients", {"m"},
                       {{"momentum", 0.9}, {"decay", 0.0}, {"nesterov", std::int64_t{0}}}));
  rows.push_back(row<adagrad, 10>("adagrad", "a step over the root of the sum of squares", {"s"},
                                  {{"epsilon", 1e-10}, {"decay", 0.0}}));
  rows.push_back(row<adamw, 18>("adamw", "Adam with decay apart from the gradient", {"m", "v"},
                                {{"beta1", 0.9},
                                 {"beta2", 0.999},
                                 {"epsilon", 1e-8},
                                 {"decay", 0.01},
                                 {"rounds", std::int64_t{1}},
                                 {"round", std::int64_t{0}}}));
  rows.push_back(rounded(rows.back()));
  rows.push_back(row<lion, 11>("lion", "a step along the sign of a decaying mean of gradients",
                               {"m"}, {{"beta1", 0.9}, {"beta2", 0.99}, {"decay", 0.0}}));
  return rows;
}

}  // namespace trireme::ops::optimizers
