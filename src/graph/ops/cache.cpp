// Attention with a key-value cache, for generating text. A graph takes the next T tokens of each sequence, whose
// positions are an input, so that one program serves every position; the keys and values of earlier tokens are state.
//
//   cache_write    y = cache, except y[b, positions[b,t], :] = x[b,t,:]; if positions repeat, the last t wins
//   rope_at        rope (rope.cpp) at these positions, all below `limit`
//   attention_at   attention (attention.cpp) in which query t sees the keys s <= positions[b,t]
//
//   bytes of attention_at: as if all S keys and values were read; a kernel reads only the visible ones
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::cache {
namespace {

/// Positions [B,T] of an x [B,T,…].
void require_positions(const Signature& s, std::size_t x, std::size_t positions) {
  rules::require_rank(s, x, 4);
  rules::require_integer(s, positions);
  rules::require_rank(s, positions, 2);
  s.require(s.shape(positions).dim(0) == s.shape(x).dim(0) &&
                s.shape(positions).dim(1) == s.shape(x).dim(1),
            "there must be a position for each token");
}

/// The position of token `at` of all B T tokens, which must be below `limit`.
std::int64_t token_position(const Signature& s, const Dense& positions, std::int64_t at,
                            std::int64_t limit) {
  const auto position = static_cast<std::int64_t>(positions.data[at]);
  s.require(position >= 0 && position < limit,
            fmt::format("position {} is out of range; there are {}", position, limit));
  return position;
}

// cache_write: cache[B,S,G,D], x[B,T,G,D], positions[B,T] -> y[B,S,G,D]

std::vector<TensorType> infer_write(const Signature& s) {
  require_positions(s, 1, 2);
  rules::require_rank(s, 0, 4);
  rules::require_same_dtype(s, 0, 1);
  for (const int dim : {0, 2, 3}) {
    s.require(s.shape(0).dim(dim) == s.shape(1).dim(dim), "cache and x must have the same B, G, D");
  }
  return rules::like_first(s);
}

Factors factors_write(const Signature& s) {
  return rules::factors_by_letters(s, {{"bsgd", "btgd", "bt"}, {"bsgd"}, "st"});
}

/// In place, only the new rows are moved.
Work work_write(const Signature& s) {
  return {.bytes = 2 * static_cast<double>(size_of(s.inputs[1]).count)};
}

void reference_write(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Shape& cache = s.shape(0);
  const std::int64_t row = cache.dim(2) * cache.dim(3);
  const std::int64_t tokens = s.shape(1).dim(1);
  out[0].data = in[0].data;
  for (std::int64_t i = 0; i < s.shape(1).dim(0) * tokens; ++i) {
    const std::int64_t at = i / tokens * cache.dim(1) + token_position(s, in[2], i, cache.dim(1));
    std::copy_n(in[1].data.begin() + i * row, row, out[0].data.begin() + at * row);
  }
}

// rope_at: x[B,T,H,D], positions[B,T] -> y[B,T,H,D]

std::vector<TensorType> infer_rope(const Signature& s) {
  rules::require_float(s, 0);
  require_positions(s, 0, 1);
  s.require(s.shape(0).dim(3) % 2 == 0, "D, the last dimension of x, must be even");
  s.require(s.number("base") > 0, "base must be positive");
  return rules::like_first(s);
}

Factors factors_rope(const Signature& s) {
  return rules::factors_by_letters(s, {{"bthd", "bt"}, {"bthd"}, "d"});
}

void reference_rope(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::int64_t heads = s.shape(0).dim(2);
  const std::int64_t d = s.shape(0).dim(3);
  const std::int64_t rows = s.shape(0).dim(0) * s.shape(0).dim(1) * heads;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto position =
        static_cast<double>(token_position(s, in[1], row / heads, s.integer("limit")));
    for (std::int64_t i = 0; i < d / 2; ++i) {
      const std::int64_t a = row * d + i;
      const std::int64_t b = a + d / 2;
      const double exponent = -2 * static_cast<double>(i) / static_cast<double>(d);
      const double angle = position * std::pow(s.number("base"), exponent);
      out[0].data[a] = in[0].data[a] * std::cos(angle) - in[0].data[b] * std::sin(angle);
      out[0].data[b] = in[0].data[b] * std::cos(angle) + in[0].data[a] * std::sin(angle);
    }
  }
}

// attention_at: q[B,T,H,D], k[B,S,G,D], v[B,S,G,D], positions[B,T] -> y[B,T,H,D]

std::vector<TensorType> infer_attention(const Signature& s) {
  rules::require_float(s, 0);
  require_positions(s, 0, 3);
  rules::require_rank(s, 1, 4);
  rules::require_same_dtype(s, 0, 1);
  rules::require_same_type(s, 1, 2);
  const Shape& q = s.shape(0);
  const Shape& k = s.shape(1);
  s.require(q.dim(0) == k.dim(0) && q.dim(3) == k.dim(3), "q and k must have the same B and D");
  s.require(q.dim(3) >= 1, "heads must have a size D of at least 1");
  s.require(k.dim(2) == 0 ? q.dim(2) == 0 : q.dim(2) % k.dim(2) == 0,
            fmt::format("{} heads of q are not a multiple of {} heads of k", q.dim(2), k.dim(2)));
  return rules::like_first(s);
}

Factors factors_attention(const Signature& s) {
  enum : std::int32_t { B, G, R, T, S, D };
  const Shape& q = s.shape(0);
  const Shape& k = s.shape(1);
  const std::int64_t groups = k.dim(2);
  const Factors::Dims query{{B}, {T}, {G, R}, {D}};
  const Factors::Dims key{{B}, {S}, {G}, {D}};
  return {.factors = {{q.dim(0)},
                      {groups},
                      {groups == 0 ? 1 : q.dim(2) / groups},
                      {q.dim(1)},
                      {k.dim(1), Factor::Split::Never},
                      {q.dim(3), Factor::Split::Never}},
          .inputs = {query, key, key, {{B}, {T}}},
          .outputs = {query}};
}

Work work_attention(const Signature& s) {
  const auto scores = static_cast<double>(s.shape(0).dim(0) * s.shape(0).dim(1) *
                                          s.shape(0).dim(2) * s.shape(1).dim(1));
  return {.products = 4 * scores * static_cast<double>(s.shape(0).dim(3)),
          .others = 5 * scores,
          .bytes = rules::bytes_of_operands(s)};
}

void reference_attention(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Shape& q = s.shape(0);
  const Shape& k = s.shape(1);
  const std::int64_t d = q.dim(3);
  const double scale =
      s.number("scale") != 0 ? s.number("scale") : 1 / std::sqrt(static_cast<double>(d));
  for (std::int64_t row = 0; row < q.dim(0) * q.dim(1) * q.dim(2); ++row) {
    const std::int64_t token = row / q.dim(2);
    const std::int64_t group = row % q.dim(2) / (q.dim(2) / k.dim(2));
    const std::int64_t seen = 1 + token_position(s, in[3], token, k.dim(1));
    const auto key_at = [&](std::int64_t key) {
      return ((token / q.dim(1) * k.dim(1) + key) * k.dim(2) + group) * d;
    };
    std::vector<double> weights;
    for (std::int64_t key = 0; key < seen; ++key) {
      const double* query = &in[0].data[row * d];
      weights.push_back(scale *
                        std::inner_product(query, query + d, &in[1].data[key_at(key)], 0.0));
    }
    const double largest = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) {
      weight = std::exp(weight - largest);
      sum += weight;
    }
    for (std::int64_t key = 0; key < seen; ++key) {
      for (std::int64_t i = 0; i < d; ++i) {
        out[0].data[row * d + i] += weights[key] / sum * in[2].data[key_at(key) + i];
      }
    }
  }
}

}  // namespace

std::vector<Op> rows() {
  return {
      {.name = "attention_at",
       .summary = "attention of q[b,t,h,d] to the keys and values [b,s,g,d], s <= positions[b,t]",
       .inputs = {"q", "k", "v", "positions"},
       .outputs = {"y"},
       .attributes = {{"scale", 0.0}},
       .infer = infer_attention,
       .factors = factors_attention,
       .work = work_attention,
       .reference = reference_attention},
      {.name = "cache_write",
       .summary = "y[b,s,g,d] = cache, with x[b,t,g,d] at positions[b,t]",
       .inputs = {"cache", "x", "positions"},
       .outputs = {"y"},
       .infer = infer_write,
       .factors = factors_write,
       .work = work_write,
       .in_place = {{0, 0}},
       .reference = reference_write},
      {.name = "rope_at",
       .summary = "x[b,t,h,d], pairs (i, i+d/2) turned by positions[b,t] base^(-2i/d)",
       .inputs = {"x", "positions"},
       .outputs = {"y"},
       .attributes = {{"base", 10000.0}, {"limit", std::int64_t{0}, false}},
       .infer = infer_rope,
       .factors = factors_rope,
       .work = rules::per_element<3>,
       .in_place = {{0, 0}},
       .reference = reference_rope}};
}

}  // namespace trireme::ops::cache
