// top_k: the k largest of every row, in descending order, and their indices. Ties prefer the lower index; a NaN is
// never larger than another value.
//
//   values[..,j] = scores[.., indices[..,j]]
//
// In the backward, the gradients go back to the values' indices, and everything else gets 0. So top_k_backward also
// expands gates [..,k] to a row with zeros outside of the top k.
#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::top_k {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  s.require(s.shape(0).rank() >= 1, "scores must have a dimension to choose from");
  const std::int64_t k = s.integer("k");
  s.require(k >= 1 && k <= s.shape(0).dims().back(), fmt::format("a row has no {} largest", k));
  const Shape chosen = with_row_length(s.shape(0), k);
  return {{s.inputs[0].dtype, chosen}, {DType::I32, chosen}};
}

Factors factors(const Signature& s) {
  const std::string row = rules::letters_for(s.shape(0).rank() - 1);
  return rules::factors_by_letters(
      s, {.inputs = {row + 'E'}, .outputs = {row + 'K', row + 'K'}, .unshardable = "EK"});
}

Work work(const Signature& s) {
  return {.others = static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

/// The first of the largest not yet taken.
std::size_t next_largest(std::span<const double> row, const std::vector<bool>& taken) {
  std::size_t best = row.size();
  for (std::size_t e = 0; e < row.size(); ++e) {
    if (!taken[e] && (best == row.size() || row[e] > row[best])) {
      best = e;
    }
  }
  return best;
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t k = s.integer("k");
  const std::size_t choices = row_length(in[0]);
  for (std::size_t r = 0; r < out[0].data.size() / k; ++r) {
    const std::span<const double> row(in[0].data.data() + r * choices, choices);
    std::vector<bool> taken(choices, false);
    for (std::size_t j = 0; j < k; ++j) {
      const std::size_t best = next_largest(row, taken);
      taken[best] = true;
      out[0].data[r * k + j] = row[best];
      out[1].data[r * k + j] = static_cast<double>(best);
    }
  }
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const std::int64_t size = q.builder.shape(q.node.inputs[0]).dims().back();
  return {q.builder.add1("top_k_backward", {q.outputs[0], q.node.outputs[1]}, {{"size", size}})};
}

// Backward: dvalues, indices -> dscores

std::vector<TensorType> infer_backward(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_integer(s, 1);
  s.require(s.shape(0).rank() >= 1, "dvalues must have a dimension that was chosen");
  s.require(s.shape(0) == s.shape(1), "dvalues and indices must have the same shape");
  return {{s.inputs[0].dtype, with_row_length(s.shape(0), s.integer("size"))}};
}

Factors factors_backward(const Signature& s) {
  const std::string row = rules::letters_for(s.shape(0).rank() - 1);
  return rules::factors_by_letters(
      s, {.inputs = {row + 'K', row + 'K'}, .outputs = {row + 'E'}, .unshardable = "EK"});
}

void reference_backward(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t k = row_length(in[0]);
  const std::int64_t size = s.integer("size");
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    const auto index = static_cast<std::int64_t>(in[1].data[i]);
    s.require(index >= 0 && index < size,
              fmt::format("score {} is out of range; there are {}", index, size));
    const auto row = static_cast<std::int64_t>(i / k);
    out[0].data[row * size + index] += in[0].data[i];
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "top_k",
           .summary = "the k largest of scores[..,e], and their indices, by row",
           .inputs = {"scores"},
           .outputs = {"values", "indices"},
           .attributes = {{"k", std::int64_t{2}}},
           .infer = infer,
           .factors = factors,
           .work = work,
           .gradient = gradient,
           .reference = reference},
          {.name = "top_k_backward",
           .summary = "dscores[..,size] = dvalues[..,k] at the indices, 0 elsewhere",
           .inputs = {"dvalues", "indices"},
           .outputs = {"dscores"},
           .attributes = {{"size", std::int64_t{0}, false}},
           .infer = infer_backward,
           .factors = factors_backward,
           .linear = Linear::Each,
           .work = rules::per_element<0>,
           .reference = reference_backward}};
}

}  // namespace trireme::ops::top_k
