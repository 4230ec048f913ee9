// layer_norm: normalizes every row to mean 0 and variance 1, then scales and shifts it.
//
//   y = (x - mean) rstd gamma + beta,  rstd = 1 / sqrt(variance + epsilon)
//
// The mean and rstd of each row are results too, because the backward needs them. In the backward,
// with g = dy gamma and n = (x - mean) rstd:
//
//   dx = rstd (g - mean_of_row(g) - n mean_of_row(g n)),  dgamma = sum of dy n,  dbeta = sum of dy
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::layer_norm {
namespace {

void require_rows(const Signature& s, std::size_t x, std::size_t gamma) {
  rules::require_float(s, x);
  s.require(s.shape(x).rank() >= 1, "x must have a dimension to normalize");
  rules::require_rank(s, gamma, 1);
  s.require(s.shape(gamma).dim(0) == s.shape(x).dims().back(),
            "gamma must be as long as a row of x");
}

std::vector<TensorType> infer(const Signature& s) {
  require_rows(s, 0, 1);
  rules::require_same_type(s, 1, 2);
  const TensorType statistics{rules::statistics_type(s.inputs[0].dtype),
                              rules::rows_of(s.shape(0))};
  return {s.inputs[0], statistics, statistics};
}

Factors factors(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(0).rank());
  const std::string c(1, x.back());
  const std::string rows = x.substr(0, x.size() - 1);
  return rules::factors_by_letters(s, {{x, c, c}, {x, rows, rows}, c});
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t c = row_length(in[0]);
  for (std::size_t r = 0; r < out[1].data.size(); ++r) {
    const double* x = in[0].data.data() + r * c;
    double mean = 0;
    for (std::size_t i = 0; i < c; ++i) {
      mean += x[i] / static_cast<double>(c);
    }
    double variance = 0;
    for (std::size_t i = 0; i < c; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(c);
    }
    const double rstd = 1 / std::sqrt(variance + s.number("epsilon"));
    for (std::size_t i = 0; i < c; ++i) {
      out[0].data[r * c + i] = (x[i] - mean) * rstd * in[1].data[i] + in[2].data[i];
    }
    out[1].data[r] = mean;
    out[2].data[r] = rstd;
  }
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const auto& in = q.node.inputs;
  const auto& out = q.node.outputs;
  return q.builder.add("layer_norm_backward", {q.outputs[0], in[0], in[1], out[1], out[2]});
}

// Backward: dy, x, gamma, mean, rstd -> dx, dgamma, dbeta

std::vector<TensorType> infer_backward(const Signature& s) {
  require_rows(s, 1, 2);
  rules::require_same_type(s, 0, 1);
  rules::require_same_type(s, 3, 4);
  rules::require_statistic(s, 3, 1);
  s.require(s.shape(3) == rules::rows_of(s.shape(1)),
            "mean and rstd must have one number for each row");
  return {s.inputs[1], s.inputs[2], s.inputs[2]};
}

Factors factors_backward(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(1).rank());
  const std::string c(1, x.back());
  const std::string rows = x.substr(0, x.size() - 1);
  return rules::factors_by_letters(s, {{x, x, c, rows, rows}, {x, c, c}, c});
}

void reference_backward(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t c = row_length(in[1]);
  const std::vector<double>& gamma = in[2].data;
  for (std::size_t r = 0; r < in[3].data.size(); ++r) {
    const double* dy = in[0].data.data() + r * c;
    const double* x = in[1].data.data() + r * c;
    const double rstd = in[4].data[r];
    const auto normal = [&](std::size_t i) { return (x[i] - in[3].data[r]) * rstd; };
    double mean_g = 0;
    double mean_gn = 0;
    for (std::size_t i = 0; i < c; ++i) {
      mean_g += dy[i] * gamma[i] / static_cast<double>(c);
      mean_gn += dy[i] * gamma[i] * normal(i) / static_cast<double>(c);
      out[1].data[i] += dy[i] * normal(i);
      out[2].data[i] += dy[i];
    }
    for (std::size_t i = 0; i < c; ++i) {
      out[0].data[r * c + i] = rstd * (dy[i] * gamma[i] - mean_g - normal(i) * mean_gn);
    }
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "layer_norm",
           .summary = "y[..,c] = (x - mean) rstd gamma + beta, by row",
           .inputs = {"x", "gamma", "beta"},
           .outputs = {"y", "mean", "rstd"},
           .attributes = {{"epsilon", 1e-5}},
           .infer = infer,
           .factors = factors,
           .work = rules::per_element<8>,
           .gradient = gradient,
           .reference = reference},
          {.name = "layer_norm_backward",
           .summary = "gradients of layer_norm",
           .inputs = {"dy", "x", "gamma", "mean", "rstd"},
           .outputs = {"dx", "dgamma", "dbeta"},
           .infer = infer_backward,
           .factors = factors_backward,
           .work = rules::per_element<14>,
           .in_place = {{0, 0}},
           .reference = reference_backward}};
}

}  // namespace trireme::ops::layer_norm
