// classifier: the cross-entropy of each row's target and its gradient, in one pass over the logits.
//
//   loss[..] = lse - logits[.., target],  lse = ln of the sum of e^logits over the row's classes
//   dlogits[..,v] = dloss[..] (e^(logits[..,v] - lse) - [v is the target])
//
// A row has `classes` classes (0: the whole row); the rest is padding, which is ignored and has gradient 0. A target of
// -1 is ignored: its loss and its gradient are 0. It equals reduce_max, the four ops of cross_entropy.cpp, and needs
// the gradient of the loss beforehand, which is a constant for a mean.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "graph/ops/targets.h"
#include "trireme/op_rules.h"

namespace trireme::ops::classifier {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_integer(s, 1);
  s.require(s.shape(0).rank() >= 1 && rules::rows_of(s.shape(0)) == s.shape(1),
            "logits must have a row for each target");
  rules::require_statistic(s, 2, 0);
  s.require(s.shape(2) == s.shape(1), "dloss must have one number for each target");
  s.require(classes_of(s, 0) >= 1 && classes_of(s, 0) <= s.shape(0).dims().back(),
            fmt::format("the logits do not have {} classes", classes_of(s, 0)));
  return {s.inputs[2], s.inputs[0]};
}

Factors factors(const Signature& s) {
  const std::string rows = rules::letters_for(s.shape(1).rank());
  return rules::factors_by_letters(s, {{rows + "V", rows, rows}, {rows, rows + "V"}, "V"});
}

Work work(const Signature& s) {
  return {.others = 7 * static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

double log_of_sum(std::span<const double> logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp(logit - top);
  }
  return top + std::log(sum);
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t width = row_length(in[0]);
  const std::size_t classes = classes_of(s, 0);
  for (std::size_t r = 0; r < in[1].data.size(); ++r) {
    const double target = in[1].data[r];
    s.require(target == kIgnored || (target >= 0 && target < static_cast<double>(classes)),
              fmt::format("the target {} is neither -1 nor below V = {}", target, classes));
    if (target == kIgnored) {
      continue;
    }
    const std::span logits(in[0].data.data() + r * width, classes);
    const double lse = log_of_sum(logits);
    out[0].data[r] = lse - logits[target];
    for (std::size_t v = 0; v < classes; ++v) {
      const double one = static_cast<double>(v) == target ? 1 : 0;
      out[1].data[r * width + v] = in[2].data[r] * (std::exp(logits[v] - lse) - one);
    }
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "classifier",
           .summary = "the loss of each row's target, and dlogits = dloss (softmax - target)",
           .inputs = {"logits", "targets", "dloss"},
           .outputs = {"loss", "dlogits"},
           .attributes = {{"classes", std::int64_t{0}}},
           .infer = infer,
           .factors = factors,
           .work = work,
           .in_place = {{1, 0}},
           .reference = reference}};
}

}  // namespace trireme::ops::classifier
