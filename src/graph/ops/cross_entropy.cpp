// cross_entropy: the negative log-likelihood of each row's target.
//
//   loss[..] = lse[..] - logits[.., target],  lse = ln of the sum of e^logits over the row
//
// in two steps, with top the largest logit of each row (or any other number near it, which only keeps e^ in range):
//
//   cross_entropy_sums:  sum[..] = sum of e^(logits - top),  picked[..] = logits[.., target]
//   cross_entropy:       loss[..] = top + ln sum - picked
//
// The first iterates over the classes, and both of its results are sums over shards of them: a shard has the classes
// from `first` on of `classes` (0: as many as there are logits), and picks 0 if it does not have the target. A target
// of -1 is ignored: picked, loss and gradient are 0. Backward:
//
//   dsum = dloss / sum,  dpicked = -dloss,  dlogits[..,v] = dsum e^(logits[..,v] - top) + dpicked [v is the target]
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "graph/ops/targets.h"
#include "trireme/op_rules.h"

namespace trireme::ops::cross_entropy {
namespace {

// Sums: logits, targets, top -> sum, picked. The backward: dsum, dpicked, logits, targets, top -> dlogits. Both have
// the three operands in the same order.

void require_rows(const Signature& s, std::size_t logits) {
  const std::size_t targets = logits + 1;
  const std::size_t top = logits + 2;
  rules::require_float(s, logits);
  rules::require_integer(s, targets);
  rules::require_same_dtype(s, logits, top);
  s.require(s.shape(logits).rank() >= 1 && rules::rows_of(s.shape(logits)) == s.shape(targets),
            "logits must have a row for each target");
  s.require(s.shape(top) == s.shape(targets), "top must have one number for each target");
  const std::int64_t classes = classes_of(s, logits);
  s.require(classes >= 1, "logits must have at least one class");
  s.require(
      s.integer("first") >= 0 && s.integer("first") + s.shape(logits).dims().back() <= classes,
      fmt::format("the logits from {} on are not of {} classes", s.integer("first"), classes));
}

TensorType statistic_of(const Signature& s, std::size_t logits) {
  return {rules::statistics_type(s.inputs[logits].dtype), rules::rows_of(s.shape(logits))};
}

std::vector<TensorType> infer_sums(const Signature& s) {
  require_rows(s, 0);
  return {statistic_of(s, 0), statistic_of(s, 0)};
}

Factors factors_sums(const Signature& s) {
  const std::string rows = rules::letters_for(s.shape(1).rank());
  return rules::factors_by_letters(s, {{rows + "V", rows, rows}, {rows, rows}, ""});
}

/// The classes are the factor after those of the rows.
template <std::size_t kLogits>
Attributes part_of(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  attributes["classes"] = classes_of(whole, kLogits);
  attributes["first"] = whole.integer("first") + ranges.back().begin;
  return attributes;
}

Work work_sums(const Signature& s) {
  return {.others = 3 * static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

/// The gradient of a result; 0 if nothing flows back.
ValueId gradient_or_zero(GradientQuery& q, std::size_t k) {
  if (q.outputs[k].valid()) {
    return q.outputs[k];
  }
  const TensorType type = q.builder.type(q.node.outputs[k]);
  Attributes zero{{"value", 0.0}};
  zero["shape"] = type.shape.dims();
  zero["dtype"] = std::string(to_text(type.dtype));
  return q.builder.add1("fill", {}, zero);
}

ValueId negative(GradientQuery& q, ValueId x, ValueId like) {
  const ValueId minus = q.builder.add1("scale", {x}, {{"factor", -1.0}});
  const DType wanted = q.builder.type(like).dtype;
  return q.builder.type(minus).dtype == wanted
             ? minus
             : q.builder.add1("cast", {minus}, {{"to", std::string(to_text(wanted))}});
}

std::vector<ValueId> gradient_sums(GradientQuery& q) {
  const ValueId dsum = gradient_or_zero(q, 0);
  const ValueId dpicked = gradient_or_zero(q, 1);
  const auto& in = q.node.inputs;
  std::vector<ValueId> gradients(3);
  if (q.wanted[0]) {
    gradients[0] = q.builder.add1("cross_entropy_sums_backward",
                                  {dsum, dpicked, in[0], in[1], in[2]}, q.node.attributes);
  }
  if (q.wanted[2]) {
    gradients[2] = negative(q, q.builder.add1("multiply", {dsum, q.node.outputs[0]}), in[2]);
  }
  return gradients;
}

void require_target(const Signature& s, double target, std::int64_t classes) {
  s.require(target == kIgnored || (target >= 0 && target < static_cast<double>(classes)),
            fmt::format("the target {} is neither -1 nor below V = {}", target, classes));
}

/// Whether the target is class v of this shard.
bool is_target(const Signature& s, double target, std::size_t v) {
  return target == static_cast<double>(s.integer("first")) + static_cast<double>(v);
}

void reference_sums(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t classes = row_length(in[0]);
  for (std::size_t r = 0; r < in[1].data.size(); ++r) {
    require_target(s, in[1].data[r], classes_of(s, 0));
    for (std::size_t v = 0; v < classes; ++v) {
      const double logit = in[0].data[r * classes + v];
      out[0].data[r] += std::exp(logit - in[2].data[r]);
      out[1].data[r] += is_target(s, in[1].data[r], v) ? logit : 0;
    }
  }
}

std::vector<TensorType> infer_sums_backward(const Signature& s) {
  require_rows(s, 2);
  rules::require_same_type(s, 0, 1);
  s.require(s.inputs[0] == statistic_of(s, 2),
            "dsum must be like the sums, in f32 or f64, with one number for each target");
  return {s.inputs[2]};
}

Factors factors_sums_backward(const Signature& s) {
  const std::string rows = rules::letters_for(s.shape(3).rank());
  return rules::factors_by_letters(s, {{rows, rows, rows + "V", rows, rows}, {rows + "V"}, ""});
}

void reference_sums_backward(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t classes = row_length(in[2]);
  for (std::size_t r = 0; r < in[3].data.size(); ++r) {
    require_target(s, in[3].data[r], classes_of(s, 2));
    for (std::size_t v = 0; v < classes; ++v) {
      const std::size_t i = r * classes + v;
      out[0].data[i] = in[0].data[r] * std::exp(in[2].data[i] - in[4].data[r]) +
                       (is_target(s, in[3].data[r], v) ? in[1].data[r] : 0);
    }
  }
}

// The loss: sum, picked, top, targets -> loss

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_type(s, 0, 1);
  rules::require_statistic(s, 0, 2);
  rules::require_integer(s, 3);
  s.require(s.shape(2) == s.shape(0) && s.shape(3) == s.shape(0),
            "sum, picked, top and targets must have as many rows");
  return {s.inputs[0]};
}

Factors factors_of_rows(const Signature& s) {
  const std::string rows = rules::letters_for(s.shape(0).rank());
  return rules::factors_by_letters(s, {std::vector<std::string>(s.inputs.size(), rows),
                                       std::vector<std::string>(s.op->outputs.size(), rows), ""});
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const auto& in = q.node.inputs;
  const std::vector<ValueId> found =
      q.builder.add("cross_entropy_backward", {q.outputs[0], in[0], in[3]});
  return {found[0], found[1], q.wanted[2] ? negative(q, found[1], in[2]) : ValueId{}, {}};
}

void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t r = 0; r < in[0].data.size(); ++r) {
    const bool ignored = in[3].data[r] == kIgnored;
    out[0].data[r] = ignored ? 0 : in[2].data[r] + std::log(in[0].data[r]) - in[1].data[r];
  }
}

// Backward: dloss, sum, targets -> dsum, dpicked

std::vector<TensorType> infer_backward(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_same_type(s, 0, 1);
  rules::require_integer(s, 2);
  s.require(s.shape(2) == s.shape(0), "dloss, sum and targets must have as many rows");
  return {s.inputs[0], s.inputs[0]};
}

void reference_backward(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t r = 0; r < in[0].data.size(); ++r) {
    const double dloss = in[2].data[r] == kIgnored ? 0 : in[0].data[r];
    out[0].data[r] = dloss / in[1].data[r];
    out[1].data[r] = -dloss;
  }
}

std::vector<AttributeRow> attributes() {
  return {{"first", std::int64_t{0}}, {"classes", std::int64_t{0}}};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "cross_entropy",
           .summary = "loss[..] = top + ln sum - picked; 0 where the target is -1",
           .inputs = {"sum", "picked", "top", "targets"},
           .outputs = {"loss"},
           .infer = infer,
           .factors = factors_of_rows,
           .work = rules::per_element<3>,
           .gradient = gradient,
           .reference = reference},
          {.name = "cross_entropy_backward",
           .summary = "dsum = dloss / sum, dpicked = -dloss; 0 where the target is -1",
           .inputs = {"dloss", "sum", "targets"},
           .outputs = {"dsum", "dpicked"},
           .infer = infer_backward,
           .factors = factors_of_rows,
           .work = rules::per_element<2>,
           .reference = reference_backward},
          {.name = "cross_entropy_sums",
           .summary = "sum[..] = sum of e^(logits - top), picked[..] = logits[.., target]",
           .inputs = {"logits", "targets", "top"},
           .outputs = {"sum", "picked"},
           .attributes = attributes(),
           .infer = infer_sums,
           .factors = factors_sums,
           .part = part_of<0>,
           .work = work_sums,
           .gradient = gradient_sums,
           .smooth_outputs = 2,
           .reference = reference_sums},
          {.name = "cross_entropy_sums_backward",
           .summary = "dlogits[..,v] = dsum e^(logits - top) + dpicked [v is the target]",
           .inputs = {"dsum", "dpicked", "logits", "targets", "top"},
           .outputs = {"dlogits"},
           .attributes = attributes(),
           .infer = infer_sums_backward,
           .factors = factors_sums_backward,
           .part = part_of<2>,
           .work = rules::per_element<4>,
           .in_place = {{0, 2}},
           .reference = reference_sums_backward}};
}

}  // namespace trireme::ops::cross_entropy
