// attention: for each query, the values weighted by how well their keys match it. Heads share keys and values in groups
// (Ainslie et al., GQA, 2023): of H = G r heads, head h uses key/value head h / r. G = H is plain multi-head attention,
// G = 1 multi-query.
//
//   score[s] = scale q[t] . k[s]             scale 0 means 1 / sqrt(D)
//   lse[t]   = ln of the sum of e^score[s]   over the keys that t sees
//   y[t]     = sum of e^(score[s] - lse[t]) v[s]
//
// With `causal`, query t sees the keys s <= start + t; an empty start is S - T, so that the last query sees all. A
// query that sees none has y = 0 and lse = -infinity. The lse is a result for the backward, which recomputes the
// weights instead of keeping them (Dao et al., FlashAttention, 2022). With p = e^(score - lse):
//
//   dv[s] += p dy[t]
//   ds     = p (dy[t] . v[s] - dy[t] . y[t])
//   dq[t] += scale ds k[s],  dk[s] += scale ds q[t]
//
//   FLOPs of products: forward 2 x 2 B H T S D, backward 5 x 2 B H T S D (scores, dv, dp, dq, dk)
//
// Heads can be sharded by G, the groups, or by r within the groups; then dk and dv are partial sums. Keys can be
// processed in turn, a KV shard at a time; a shard at a later position has a start that is smaller by as much.
// attention_merge combines the results of two sets of keys, a and b (Liu et al., Ring Attention, 2023):
//
//   lse = ln(e^lse_a + e^lse_b),  y = y_a e^(lse_a - lse) + y_b e^(lse_b - lse)
//
// The backward of a KV shard takes the lse and y of the full attention; dq is the sum over the shards.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::attention {
namespace {

/// Sizes of q[B,T,H,D] and k[B,S,G,D], and the constants.
struct Heads {
  std::int64_t b, t, h, d, s, g, r;
  double scale;
  bool causal;
  std::int64_t start;  ///< the position of the first query among the keys

  /// How many keys query t sees, from the first on.
  [[nodiscard]] std::int64_t seen(std::int64_t query) const {
    return causal ? std::clamp<std::int64_t>(query + 1 + start, 0, s) : s;
  }
  /// Where the vectors of a query and of a key of head `head` begin, and where its lse is.
  [[nodiscard]] std::int64_t query_at(std::int64_t batch, std::int64_t head,
                                      std::int64_t query) const {
    return ((batch * t + query) * h + head) * d;
  }
  [[nodiscard]] std::int64_t key_at(std::int64_t batch, std::int64_t head, std::int64_t key) const {
    return ((batch * s + key) * g + head / r) * d;
  }
  [[nodiscard]] std::int64_t lse_at(std::int64_t batch, std::int64_t head,
                                    std::int64_t query) const {
    return (batch * h + head) * t + query;
  }
};

Heads heads_of(const Signature& s, std::size_t q, std::size_t k) {
  const Shape& query = s.shape(q);
  const Shape& key = s.shape(k);
  const double scale = s.number("scale");
  return {.b = query.dim(0),
          .t = query.dim(1),
          .h = query.dim(2),
          .d = query.dim(3),
          .s = key.dim(1),
          .g = key.dim(2),
          .r = key.dim(2) == 0 ? 1 : query.dim(2) / key.dim(2),
          .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(query.dim(3))),
          .causal = s.flag("causal"),
          .start = s.integers("start").empty() ? key.dim(1) - query.dim(1)
                                               : s.integers("start").front()};
}

void require_heads(const Signature& s, std::size_t q, std::size_t k, std::size_t v) {
  rules::require_float(s, q);
  rules::require_rank(s, q, 4);
  rules::require_rank(s, k, 4);
  rules::require_same_dtype(s, q, k);
  rules::require_same_type(s, k, v);
  const Heads heads = heads_of(s, q, k);
  s.require(heads.b == s.shape(k).dim(0), "q and k must have the same batch B");
  s.require(heads.d == s.shape(k).dim(3), "q and k must have the same head size D");
  s.require(heads.d >= 1, "heads must have a size D of at least 1");
  s.require(heads.g * heads.r == heads.h,
            fmt::format("{} heads of q are not a multiple of {} heads of k", heads.h, heads.g));
}

std::vector<TensorType> infer(const Signature& s) {
  require_heads(s, 0, 1, 2);
  const Heads n = heads_of(s, 0, 1);
  return {s.inputs[0], {rules::statistics_type(s.inputs[0].dtype), Shape{n.b, n.h, n.t}}};
}

/// By dimension, of the operands that look like q, like k and like lse.
struct HeadDims {
  std::vector<Factor> factors;
  Factors::Dims query, key, lse;
};

constexpr std::size_t kQueryFactor = 3;
constexpr std::size_t kKeyFactor = 4;

HeadDims dims_of(const Heads& n) {
  enum : std::int32_t { B, G, R, T, S, D };
  return {
      .factors =
          {{n.b}, {n.g}, {n.r}, {n.t}, {n.s, Factor::Split::InTurn}, {n.d, Factor::Split::Never}},
      .query = {{B}, {T}, {G, R}, {D}},
      .key = {{B}, {S}, {G}, {D}},
      .lse = {{B}, {G, R}, {T}}};
}

Factors factors(const Signature& s) {
  const HeadDims dims = dims_of(heads_of(s, 0, 1));
  return {.factors = dims.factors,
          .inputs = {dims.query, dims.key, dims.key},
          .outputs = {dims.query, dims.lse}};
}

/// A shard of T starts at a later position; a shard of S moves its first key closer.
Attributes part_of(const Signature& whole, std::span<const IndexRange> ranges) {
  const std::size_t q = whole.op->name == "attention" ? 0 : 1;
  Attributes attributes = *whole.attributes;
  attributes["start"] = std::vector<std::int64_t>{
      heads_of(whole, q, q + 1).start + ranges[kQueryFactor].begin - ranges[kKeyFactor].begin};
  return attributes;
}

/// Pairs of a query and a key that it does not see, of one head: all s of the queries before the first key, and s - u of
/// those that see u keys, u = first … last.
double unseen_pairs(const Heads& n) {
  if (!n.causal) {
    return 0;
  }
  const std::int64_t blind = std::clamp<std::int64_t>(-n.start, 0, n.t);
  const std::int64_t first = std::max<std::int64_t>(1, n.start + 1);
  const std::int64_t last = std::min(n.s - 1, n.start + n.t);
  const auto count = static_cast<double>(std::max<std::int64_t>(0, last - first + 1));
  return static_cast<double>(blind) * static_cast<double>(n.s) +
         count * static_cast<double>(2 * n.s - first - last) / 2;
}

/// `products` matrix products over T x S x D, and FLOPs for each score that is needed.
Work work_of_heads(const Signature& s, const Heads& n, double products, double per_score) {
  const double pairs = static_cast<double>(n.t) * static_cast<double>(n.s);
  const auto heads = static_cast<double>(n.b * n.h);
  return {.products = products * 2 * heads * pairs * static_cast<double>(n.d),
          .causal = pairs == 0 ? 0 : unseen_pairs(n) / pairs,
          .others = per_score * heads * (pairs - unseen_pairs(n)),
          .bytes = rules::bytes_of_operands(s)};
}

Work work(const Signature& s) {
  return work_of_heads(s, heads_of(s, 0, 1), 2, 5);
}

std::vector<ValueId> gradient(GradientQuery& q) {
  const auto& in = q.node.inputs;
  const auto& out = q.node.outputs;
  return q.builder.add("attention_backward", {q.outputs[0], in[0], in[1], in[2], out[0], out[1]},
                       q.node.attributes);
}

template <class F>
void for_each_query(const Heads& n, F f) {
  for (std::int64_t b = 0; b < n.b; ++b) {
    for (std::int64_t h = 0; h < n.h; ++h) {
      for (std::int64_t t = 0; t < n.t; ++t) {
        f(b, h, t);
      }
    }
  }
}

double dot(const double* a, const double* b, std::int64_t length) {
  return std::inner_product(a, a + length, b, 0.0);
}

void add_scaled(double factor, const double* from, double* to, std::int64_t length) {
  std::transform(from, from + length, to, to,
                 [=](double add, double sum) { return sum + factor * add; });
}

/// ln of the sum of e^score; of nothing, -infinity.
double log_sum_exp(const std::vector<double>& scores) {
  if (scores.empty()) {
    return -std::numeric_limits<double>::infinity();
  }
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const double score : scores) {
    sum += std::exp(score - largest);
  }
  return largest + std::log(sum);
}

void reference(const Signature& sig, std::span<const Dense> in, std::span<Dense> out) {
  const Heads n = heads_of(sig, 0, 1);
  for_each_query(n, [&](std::int64_t b, std::int64_t h, std::int64_t t) {
    const std::size_t query = n.query_at(b, h, t);
    std::vector<double> scores;
    for (std::int64_t s = 0; s < n.seen(t); ++s) {
      scores.push_back(n.scale * dot(&in[0].data[query], &in[1].data[n.key_at(b, h, s)], n.d));
    }
    const double lse = log_sum_exp(scores);
    for (std::int64_t s = 0; s < n.seen(t); ++s) {
      const double weight = std::exp(scores[s] - lse);
      add_scaled(weight, &in[2].data[n.key_at(b, h, s)], &out[0].data[query], n.d);
    }
    out[1].data[n.lse_at(b, h, t)] = lse;
  });
}

// Backward: dy, q, k, v, y, lse -> dq, dk, dv

std::vector<TensorType> infer_backward(const Signature& s) {
  require_heads(s, 1, 2, 3);
  rules::require_same_type(s, 0, 1);
  rules::require_same_type(s, 4, 1);
  rules::require_statistic(s, 5, 1);
  rules::require_float(s, 5);
  const Heads n = heads_of(s, 1, 2);
  s.require(s.shape(5) == Shape({n.b, n.h, n.t}), "lse must be [B,H,T]");
  return {s.inputs[1], s.inputs[2], s.inputs[3]};
}

Factors factors_backward(const Signature& s) {
  const HeadDims dims = dims_of(heads_of(s, 1, 2));
  return {.factors = dims.factors,
          .inputs = {dims.query, dims.query, dims.key, dims.key, dims.query, dims.lse},
          .outputs = {dims.query, dims.key, dims.key}};
}

/// The gradients of two products are four products; the fifth recomputes the scores, which were not kept.
Work work_backward(const Signature& s) {
  Work work = work_of_heads(s, heads_of(s, 1, 2), 5, 6);
  work.repeated = 1.0 / 5;
  return work;
}

void reference_backward(const Signature& sig, std::span<const Dense> in, std::span<Dense> out) {
  const Heads n = heads_of(sig, 1, 2);
  for_each_query(n, [&](std::int64_t b, std::int64_t h, std::int64_t t) {
    const std::size_t query = n.query_at(b, h, t);
    const double* dy = &in[0].data[query];
    const double* q = &in[1].data[query];
    const double delta = dot(dy, &in[4].data[query], n.d);
    for (std::int64_t s = 0; s < n.seen(t); ++s) {
      const std::size_t key = n.key_at(b, h, s);
      const double score = n.scale * dot(q, &in[2].data[key], n.d);
      const double p = std::exp(score - in[5].data[n.lse_at(b, h, t)]);
      const double ds = p * (dot(dy, &in[3].data[key], n.d) - delta);
      add_scaled(n.scale * ds, &in[2].data[key], &out[0].data[query], n.d);
      add_scaled(n.scale * ds, q, &out[1].data[key], n.d);
      add_scaled(p, dy, &out[2].data[key], n.d);
    }
  });
}

// Merge: y_a, lse_a, y_b, lse_b -> y, lse

std::vector<TensorType> infer_merge(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_rank(s, 0, 4);
  rules::require_same_type(s, 0, 2);
  rules::require_same_type(s, 1, 3);
  rules::require_statistic(s, 1, 0);
  const Shape& y = s.shape(0);
  s.require(s.shape(1) == Shape({y.dim(0), y.dim(2), y.dim(1)}), "lse must be [B,H,T]");
  return {s.inputs[0], s.inputs[1]};
}

Factors factors_merge(const Signature& s) {
  return rules::factors_by_letters(s, {{"bthd", "bht", "bthd", "bht"}, {"bthd", "bht"}, "d"});
}

Work work_merge(const Signature& s) {
  return {.others = 3 * static_cast<double>(s.shape(0).element_count()) +
                    8 * static_cast<double>(s.shape(1).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

void reference_merge(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Shape& y = s.shape(0);
  const std::int64_t d = y.dim(3);
  for (std::int64_t i = 0; i < y.dim(0) * y.dim(1) * y.dim(2); ++i) {
    const std::int64_t h = i % y.dim(2);
    const std::int64_t t = i / y.dim(2) % y.dim(1);
    const std::int64_t b = i / y.dim(2) / y.dim(1);
    const std::int64_t row = (b * y.dim(2) + h) * y.dim(1) + t;
    const double lse_a = in[1].data[row];
    const double lse_b = in[3].data[row];
    const double largest = std::max(lse_a, lse_b);
    const bool none = largest == -std::numeric_limits<double>::infinity();
    const double lse =
        none ? largest : largest + std::log(std::exp(lse_a - largest) + std::exp(lse_b - largest));
    const std::int64_t at = i * d;
    add_scaled(none ? 0 : std::exp(lse_a - lse), &in[0].data[at], &out[0].data[at], d);
    add_scaled(none ? 0 : std::exp(lse_b - lse), &in[2].data[at], &out[0].data[at], d);
    out[1].data[row] = lse;
  }
}

std::vector<AttributeRow> attributes() {
  return {{"causal", std::int64_t{1}}, {"scale", 0.0}, {"start", std::vector<std::int64_t>()}};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "attention",
           .summary = "y[b,t,h,d] = softmax(scale q k) v; h/r is the head of k, v[b,s,g,d]",
           .inputs = {"q", "k", "v"},
           .outputs = {"y", "lse"},
           .attributes = attributes(),
           .infer = infer,
           .factors = factors,
           .part = part_of,
           .merge = "attention_merge",
           .work = work,
           .gradient = gradient,
           .reference = reference},
          {.name = "attention_backward",
           .summary = "gradients of attention, with recomputed weights",
           .inputs = {"dy", "q", "k", "v", "y", "lse"},
           .outputs = {"dq", "dk", "dv"},
           .attributes = attributes(),
           .infer = infer_backward,
           .factors = factors_backward,
           .part = part_of,
           .merge = "add",
           .work = work_backward,
           .reference = reference_backward},
          {.name = "attention_merge",
           .summary = "attention to two sets of keys: lse = ln(e^lse_a + e^lse_b), y accordingly",
           .inputs = {"y_a", "lse_a", "y_b", "lse_b"},
           .outputs = {"y", "lse"},
           .infer = infer_merge,
           .factors = factors_merge,
           .work = work_merge,
           .in_place = {{0, 0}, {1, 1}},
           .reference = reference_merge}};
}

}  // namespace trireme::ops::attention
