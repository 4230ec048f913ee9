// rms_norm: normalizes every row to a mean square of 1, then scales it.
//
//   y = x rstd gamma,  rstd = 1 / sqrt(mean_of_row(x^2) + epsilon)
//
// The rstd of each row is a result too, because the backward needs it. In the backward, with g = dy
// gamma and n = x rstd:
//
//   dx = rstd (g - n mean_of_row(g n)),  dgamma = sum of dy n
#include <cmath>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::rms_norm {
namespace {

void require_rows(const Signature& s, std::size_t x, std::size_t gamma) {
  rules::require_float(s, x);
  rules::require_float(s, gamma);
  s.require(s.shape(x).rank() >= 1, "x must have a dimension to normalize");
  rules::require_rank(s, gamma, 1);
  s.require(s.shape(gamma).dim(0) == s.shape(x).dims().back(),
            "gamma must be as long as a row of x");
}

std::vector<TensorType> infer(const Signature& s) {
  require_rows(s, 0, 1);
  return {s.inputs[0], {rules::statistics_type(s.inputs[0].dtype), rules::rows_of(s.shape(0))}};
}

Factors factors(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(0).rank());
  const std::string c(1, x.back());
  return rules::factors_by_letters(s, {{x, c}, {x, x.substr(0, x.size() - 1)}, c});
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const auto& in = q.node.inputs;
  return q.builder.add("rms_norm_backward", {q.outputs[0], in[0], in[1], q.node.outputs[1]});
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t c = row_length(in[0]);
  for (std::size_t r = 0; r < out[1].data.size(); ++r) {
    const double* x = in[0].data.data() + r * c;
    double mean_square = 0;
    for (std::size_t i = 0; i < c; ++i) {
      mean_square += x[i] * x[i] / static_cast<double>(c);
    }
    const double rstd = 1 / std::sqrt(mean_square + s.number("epsilon"));
    for (std::size_t i = 0; i < c; ++i) {
      out[0].data[r * c + i] = x[i] * rstd * in[1].data[i];
    }
    out[1].data[r] = rstd;
  }
}

// Backward: dy, x, gamma, rstd -> dx, dgamma

std::vector<TensorType> infer_backward(const Signature& s) {
  require_rows(s, 1, 2);
  rules::require_same_type(s, 0, 1);
  rules::require_statistic(s, 3, 1);
  rules::require_float(s, 3);
  s.require(s.shape(3) == rules::rows_of(s.shape(1)), "rstd must have one number for each row");
  return {s.inputs[1], s.inputs[2]};
}

Factors factors_backward(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(1).rank());
  const std::string c(1, x.back());
  return rules::factors_by_letters(s, {{x, x, c, x.substr(0, x.size() - 1)}, {x, c}, c});
}

void reference_backward(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t c = row_length(in[1]);
  const std::vector<double>& gamma = in[2].data;
  for (std::size_t r = 0; r < in[3].data.size(); ++r) {
    const double* dy = in[0].data.data() + r * c;
    const double* x = in[1].data.data() + r * c;
    const double rstd = in[3].data[r];
    double mean_gn = 0;
    for (std::size_t i = 0; i < c; ++i) {
      mean_gn += dy[i] * gamma[i] * x[i] * rstd / static_cast<double>(c);
      out[1].data[i] += dy[i] * x[i] * rstd;
    }
    for (std::size_t i = 0; i < c; ++i) {
      out[0].data[r * c + i] = rstd * (dy[i] * gamma[i] - x[i] * rstd * mean_gn);
    }
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "rms_norm",
           .summary = "y[..,c] = x rstd gamma, rstd = 1 / root mean square of the row",
           .inputs = {"x", "gamma"},
           .outputs = {"y", "rstd"},
           .attributes = {{"epsilon", 1e-5}},
           .infer = infer,
           .factors = factors,
           .work = rules::per_element<4>,
           .gradient = gradient,
           .reference = reference},
          {.name = "rms_norm_backward",
           .summary = "gradients of rms_norm",
           .inputs = {"dy", "x", "gamma", "rstd"},
           .outputs = {"dx", "dgamma"},
           .infer = infer_backward,
           .factors = factors_backward,
           .work = rules::per_element<9>,
           .in_place = {{0, 0}},
           .reference = reference_backward}};
}

}  // namespace trireme::ops::rms_norm
