// rope: rotary position embeddings. Rotates each head's vector by angles that grow with the position, so that the
// product of a query and a key depends only on their distance (Su et al., RoFormer, 2021). Pairs are (i, i + D/2), as
// in Llama. For x[b,t,h,:] and i < D/2:
//
//   angle  = (start + t) base^(-2i/D)
//   y[i]       = x[i] cos(angle) - x[i + D/2] sin(angle)
//   y[i + D/2] = x[i + D/2] cos(angle) + x[i] sin(angle)
//
// `inverse` rotates back: the gradient, because a rotation's transpose is its inverse.
//
// `heads` counts the leading heads to rotate, such as those of q and k in a packed tensor; the others do not change. 0
// means all.
//
// A shard of T from position 100 on has start + 100. D is never sharded, because the halves of a pair are far apart.
#include <algorithm>
#include <cmath>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::rope {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_rank(s, 0, 4);
  s.require(s.shape(0).dim(3) % 2 == 0, "D, the last dimension of x, must be even");
  s.require(s.number("base") > 0, "base must be positive");
  s.require(s.integer("heads") >= 0 && s.integer("heads") <= s.shape(0).dim(2),
            "heads must not exceed the heads of x");
  return rules::like_first(s);
}

Factors factors(const Signature& s) {
  return rules::factors_by_letters(s, {{"bthd"}, {"bthd"}, s.integer("heads") == 0 ? "d" : "hd"});
}

Attributes part_of(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  attributes["start"] = whole.integer("start") + ranges[1].begin;
  return attributes;
}

std::vector<ValueId> gradient(GradientQuery& q) {
  Attributes attributes = q.node.attributes;
  const Signature s = signature_of(q.builder.graph(), q.node);
  attributes["inverse"] = std::int64_t{s.flag("inverse") ? 0 : 1};
  return {q.builder.add1("rope", {q.outputs[0]}, std::move(attributes))};
}

/// Rotates the pairs of one head's vector at a position.
void rotate(const Signature& s, double position, std::span<const double> x, std::span<double> y) {
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(x.size());
    const double angle = position * std::pow(s.number("base"), exponent);
    const double sine = s.flag("inverse") ? -std::sin(angle) : std::sin(angle);
    y[i] = x[i] * std::cos(angle) - x[i + half] * sine;
    y[i + half] = x[i + half] * std::cos(angle) + x[i] * sine;
  }
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t t = size_of_dim(in[0], 1);
  const std::size_t h = size_of_dim(in[0], 2);
  const std::size_t d = size_of_dim(in[0], 3);
  const std::size_t some = s.integer("heads");
  const std::span<const double> x(in[0].data);
  const std::span<double> y(out[0].data);
  for (std::size_t at = 0; at < x.size(); at += d) {
    if (some > 0 && at / d % h >= some) {
      std::ranges::copy(x.subspan(at, d), y.subspan(at, d).begin());
      continue;
    }
    const auto position =
        static_cast<double>(s.integer("start")) + static_cast<double>(at / d / h % t);
    rotate(s, position, x.subspan(at, d), y.subspan(at, d));
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "rope",
           .summary = "x[b,t,h,d], pairs (i, i+d/2) turned by (start+t) base^(-2i/d)",
           .inputs = {"x"},
           .outputs = {"y"},
           .attributes = {{"base", 10000.0},
                          {"start", std::int64_t{0}},
                          {"inverse", std::int64_t{0}},
                          {"heads", std::int64_t{0}}},
           .infer = infer,
           .factors = factors,
           .linear = Linear::Joint,
           .part = part_of,
           .work = rules::per_element<3>,
           .gradient = gradient,
           .in_place = {{0, 0}},
           .reference = reference}};
}

}  // namespace trireme::ops::rope
