// cross_entropy: how little the logits of a row think of its target.
//
//   loss[..] = lse[..] - logits[.., target],  lse = ln of the sum of e^logits over the row
//
// A target of -1 is ignored: its loss and gradient are 0. The lse of each row is a result too, for the
// backward:
//
//   dlogits[..,v] = dloss (e^(logits[..,v] - lse) - [v is the target])
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "graph/rules.h"

namespace trireme::ops {
namespace {

constexpr double kIgnored = -1;

void require_rows(const Signature& s, std::size_t logits, std::size_t targets) {
  rules::require_float(s, logits);
  rules::require_integer(s, targets);
  s.require(s.shape(logits).rank() >= 1 && rules::rows_of(s.shape(logits)) == s.shape(targets),
            "logits must have a row for each target");
  s.require(s.shape(logits).dims().back() >= 1, "logits must have a class at least");
}

std::vector<TensorType> infer(const Signature& s) {
  require_rows(s, 0, 1);
  const TensorType rows{rules::statistics_type(s.inputs[0].dtype), s.shape(1)};
  return {rows, rows};
}

Factors factors(const Signature& s) {
  const std::string rows = rules::letters_for(s.shape(1).rank());
  return rules::factors_by_letters(s, {{rows + "V", rows}, {rows, rows}, "V"});
}

Work work(const Signature& s) {
  return {.others = 4 * static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

std::vector<ValueId> gradient(GradientQuery& q) {
  if (!q.wanted[0]) {
    return {{}, {}};
  }
  const auto& in = q.node.inputs;
  return {q.builder.add1("cross_entropy_backward", {q.outputs[0], in[0], in[1], q.node.outputs[1]}),
          {}};
}

double log_sum_exp(std::span<const double> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (const double logit : row) {
    sum += std::exp(logit - largest);
  }
  return largest + std::log(sum);
}

void require_target(const Signature& s, double target, std::size_t classes) {
  s.require(target == kIgnored || (target >= 0 && target < static_cast<double>(classes)),
            fmt::format("the target {} is neither -1 nor below V = {}", target, classes));
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const auto v = static_cast<std::size_t>(in[0].shape.dims().back());
  for (std::size_t r = 0; r < in[1].data.size(); ++r) {
    const std::span<const double> logits = std::span(in[0].data).subspan(r * v, v);
    const double target = in[1].data[r];
    require_target(s, target, v);
    out[1].data[r] = log_sum_exp(logits);
    out[0].data[r] =
        target == kIgnored ? 0 : out[1].data[r] - logits[static_cast<std::size_t>(target)];
  }
}

// Backward: dloss, logits, targets, lse -> dlogits

std::vector<TensorType> infer_backward(const Signature& s) {
  require_rows(s, 1, 2);
  rules::require_float(s, 0);
  rules::require_same_type(s, 0, 3);
  rules::require_statistic(s, 3, 1);
  s.require(s.shape(0) == s.shape(2), "dloss must have one number for each target");
  return {s.inputs[1]};
}

Factors factors_backward(const Signature& s) {
  const std::string rows = rules::letters_for(s.shape(2).rank());
  return rules::factors_by_letters(s, {{rows, rows + "V", rows, rows}, {rows + "V"}, "V"});
}

void reference_backward(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const auto v = static_cast<std::size_t>(in[1].shape.dims().back());
  for (std::size_t r = 0; r < in[2].data.size(); ++r) {
    const double target = in[2].data[r];
    require_target(s, target, v);
    if (target == kIgnored) {
      continue;
    }
    double* dlogits = out[0].data.data() + r * v;
    for (std::size_t i = 0; i < v; ++i) {
      dlogits[i] = in[0].data[r] * std::exp(in[1].data[r * v + i] - in[3].data[r]);
    }
    dlogits[static_cast<std::size_t>(target)] -= in[0].data[r];
  }
}

}  // namespace

std::vector<Op> cross_entropy_ops() {
  return {{.name = "cross_entropy",
           .summary = "loss[..] = lse - logits[.., target], lse = ln sum e^logits; -1: no loss",
           .inputs = {"logits", "targets"},
           .outputs = {"loss", "lse"},
           .infer = infer,
           .factors = factors,
           .work = work,
           .gradient = gradient,
           .reference = reference},
          {.name = "cross_entropy_backward",
           .summary = "dlogits[..,v] = dloss (e^(logits - lse) - [v is the target])",
           .inputs = {"dloss", "logits", "targets", "lse"},
           .outputs = {"dlogits"},
           .infer = infer_backward,
           .factors = factors_backward,
           .work = rules::per_element<4>,
           .in_place = {{0, 1}},
           .reference = reference_backward}};
}

}  // namespace trireme::ops
