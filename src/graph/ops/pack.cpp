// Compact encodings of gradients. Each row of n elements is encoded independently:
//
//   largest:      the indices of the k elements of largest magnitude, ascending; ties prefer lower indices.
//                 A NaN is larger than all. (top_k_backward restores them, and adds up those with the same index.)
//   pack_signs:   a bit for each element, 1 if it is below 0, eight to a byte, least significant bit first; the scale
//                 is the mean magnitude
//   pack_ternary: two bits for each element, four to a byte: 0 if its magnitude is below 0.7 times the mean, else 1 if
//                 positive and 2 if negative; the scale is the mean magnitude of those that are not 0
//   pack_bytes:   the nearest multiple of the scale, which is the largest magnitude over 127
//
// And back, summed over the first dimension:
//
//   sum_signs:    y[..,e] = the sum over p of scale[p,..], negative where the bit is 1
//   sum_ternary:  y[..,e] = the sum over p of scale[p,..], 0 or negative, as the bits say
//   sum_bytes:    y[..,e] = the sum over p of scale[p,..] codes[p,..,e]
//
// With an element that is infinite or NaN, the scale is NaN, and so is the decoded result. Scales are f32, or f64 for
// elements in f64. The first dimension of a sum cannot be sharded: packed values are gathered rather than reduced.
// 1-bit SGD: Seide et al., Interspeech 2014; 0.7: Li, Zhang and Liu, Ternary weight networks, 2016; top-k with memory:
// Stich, Cordonnier and Jaggi, NeurIPS 2018.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "graph/ternary.h"
#include "trireme/op_rules.h"

namespace trireme::ops::pack {
namespace {

constexpr std::int64_t kBits = 8;
constexpr std::int64_t kPairs = 4;
constexpr double kLargestCode = 127;

/// `share` elements per byte.
std::int64_t bytes_for(std::int64_t elements, std::int64_t share) {
  return (elements + share - 1) / share;
}

void require_rows(const Signature& s) {
  rules::require_float(s, 0);
  s.require(s.shape(0).rank() >= 1, "x must have a dimension to pack");
}

std::string row_letters(const Signature& s) {
  return rules::letters_for(s.shape(0).rank() - 1);
}

/// For a tensor whose last dimension may be empty.
std::size_t row_count(const Dense& x) {
  std::size_t rows = 1;
  for (int d = 0; d + 1 < x.shape.rank(); ++d) {
    rows *= size_of_dim(x, d);
  }
  return rows;
}

template <int kFlops>
Work per_input(const Signature& s) {
  return {.others = kFlops * static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

// largest

std::vector<TensorType> infer_largest(const Signature& s) {
  require_rows(s);
  const std::int64_t k = s.integer("k");
  s.require(k >= 0 && k <= s.shape(0).dims().back(), fmt::format("a row has no {} largest", k));
  const Shape chosen = with_row_length(s.shape(0), k);
  return {{s.inputs[0].dtype, chosen}, {DType::I32, chosen}};
}

Factors largest_factors(const Signature& s) {
  const std::string row = row_letters(s);
  return rules::factors_by_letters(
      s, {.inputs = {row + 'E'}, .outputs = {row + 'K', row + 'K'}, .unshardable = "EK"});
}

void reference_largest(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t k = s.integer("k");
  const std::size_t n = row_length(in[0]);
  for (std::size_t r = 0; r < row_count(in[0]); ++r) {
    const double* row = in[0].data.data() + r * n;
    const auto distance = [row](std::size_t e) {
      return std::isnan(row[e]) ? std::pair(1, 0.0) : std::pair(0, std::abs(row[e]));
    };
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return distance(a) > distance(b); });
    order.resize(k);
    std::ranges::sort(order);
    for (std::size_t j = 0; j < k; ++j) {
      out[0].data[r * k + j] = row[order[j]];
      out[1].data[r * k + j] = static_cast<double>(order[j]);
    }
  }
}

// pack_signs, pack_ternary and pack_bytes: x[..,n] -> codes[..], scale[..]

/// kShare elements per code.
template <DType kCode, std::int64_t kShare>
std::vector<TensorType> infer_pack(const Signature& s) {
  require_rows(s);
  const std::int64_t n = s.shape(0).dims().back();
  return {{kCode, with_row_length(s.shape(0), bytes_for(n, kShare))},
          {rules::statistics_type(s.inputs[0].dtype), rules::rows_of(s.shape(0))}};
}

/// The scale depends on the whole row.
Factors pack_factors(const Signature& s) {
  const std::string row = row_letters(s);
  return rules::factors_by_letters(
      s, {.inputs = {row + 'E'}, .outputs = {row + 'B', row}, .unshardable = "EB"});
}

double in_type_of_scale(const Signature& s, double scale) {
  return s.inputs[0].dtype == DType::F64 ? scale : static_cast<float>(scale);
}

void reference_pack_signs(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t n = row_length(in[0]);
  const std::size_t bytes = row_length(out[0]);
  for (std::size_t r = 0; r < row_count(in[0]); ++r) {
    double sum = 0;
    for (std::size_t e = 0; e < n; ++e) {
      const double x = in[0].data[r * n + e];
      sum += std::abs(x);
      out[0].data[r * bytes + e / kBits] += x < 0 ? static_cast<double>(1U << e % kBits) : 0;
    }
    out[1].data[r] = in_type_of_scale(s, n == 0 ? 0 : sum / static_cast<double>(n));
  }
}

/// The mean magnitude of those with at least this magnitude; 0 if there are none.
double mean_distance(std::span<const double> row, double least) {
  double sum = 0;
  double count = 0;
  for (const double x : row) {
    const bool near = std::abs(x) < least;  // a NaN is not
    sum += near ? 0 : std::abs(x);
    count += near ? 0 : 1;
  }
  return count == 0 ? 0 : sum / count;
}

void reference_pack_ternary(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t n = row_length(in[0]);
  const std::size_t bytes = row_length(out[0]);
  for (std::size_t r = 0; r < row_count(in[0]); ++r) {
    const std::span<const double> row(in[0].data.data() + r * n, n);
    const double least = kTernaryThreshold * mean_distance(row, 0);
    for (std::size_t e = 0; e < n; ++e) {
      const unsigned code = std::abs(row[e]) < least ? 0U : row[e] < 0 ? 2U : 1U;
      out[0].data[r * bytes + e / kPairs] += code << 2 * (e % kPairs);
    }
    out[1].data[r] = in_type_of_scale(s, mean_distance(row, least));
  }
}

void reference_pack_bytes(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t n = row_length(in[0]);
  for (std::size_t r = 0; r < row_count(in[0]); ++r) {
    const double* row = in[0].data.data() + r * n;
    double largest = 0;
    for (std::size_t e = 0; e < n; ++e) {
      largest = std::isfinite(row[e]) ? std::max(largest, std::abs(row[e])) : std::nan("");
      if (std::isnan(largest)) {
        break;
      }
    }
    const double scale = in_type_of_scale(s, largest / kLargestCode);
    out[1].data[r] = scale;
    for (std::size_t e = 0; e < n; ++e) {
      out[0].data[r * n + e] = scale > 0 ? std::nearbyint(row[e] / scale) : 0;
    }
  }
}

// sum_signs, sum_ternary and sum_bytes: codes[p,..,b], scale[p,..] -> y[..,n]

void require_packed(const Signature& s, DType code) {
  const DType scale = s.inputs[1].dtype;
  s.require(scale == DType::F32 || scale == DType::F64, "scale must be f32 or f64");
  s.require(s.inputs[0].dtype == code && s.shape(0).rank() >= 2,
            fmt::format("codes must be {}[parts, .., bytes]", to_text(code)));
  s.require(rules::rows_of(s.shape(0)) == s.shape(1), "there must be a scale for each row");
}

TensorType sum_type(const Signature& s, std::int64_t size) {
  std::vector<std::int64_t> dims(s.shape(0).dims().begin() + 1, s.shape(0).dims().end());
  dims.back() = size;
  return {s.inputs[1].dtype, Shape(std::move(dims))};
}

template <std::int64_t kShare>
std::vector<TensorType> infer_sum_bits(const Signature& s) {
  require_packed(s, DType::U8);
  const std::int64_t size = s.integer("size");
  s.require(size >= 0 && bytes_for(size, kShare) == s.shape(0).dims().back(),
            fmt::format("{} elements are not {} bytes", size, s.shape(0).dims().back()));
  return {sum_type(s, size)};
}

std::vector<TensorType> infer_sum_bytes(const Signature& s) {
  require_packed(s, DType::I8);
  return {sum_type(s, s.shape(0).dims().back())};
}

Factors sum_factors(const Signature& s, const std::string& code, const std::string& whole) {
  const std::string row = rules::letters_for(s.shape(0).rank() - 2);
  return rules::factors_by_letters(
      s, {.inputs = {'P' + row + code, 'P' + row}, .outputs = {row + 'E'}, .unshardable = whole});
}
Factors sum_bits_factors(const Signature& s) {
  return sum_factors(s, "B", "PBE");
}
Factors sum_bytes_factors(const Signature& s) {
  return sum_factors(s, "E", "P");
}

/// f(codes, e): element e of a row, given the row's codes.
template <class F>
void reference_sum(std::span<const Dense> in, Dense& out, F f) {
  const std::size_t n = row_length(out);
  const std::size_t codes = row_length(in[0]);
  const std::size_t rows = row_count(out);
  for (std::size_t p = 0; p < in[1].data.size(); ++p) {
    const double* row = in[0].data.data() + p * codes;
    for (std::size_t e = 0; e < n; ++e) {
      out.data[p % rows * n + e] += in[1].data[p] * f(row, e);
    }
  }
}

void reference_sum_signs(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  reference_sum(in, out[0], [](const double* row, std::size_t e) {
    const auto byte = static_cast<unsigned>(row[e / kBits]);
    return (byte >> e % kBits & 1U) != 0 ? -1.0 : 1.0;
  });
}

void reference_sum_ternary(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  reference_sum(in, out[0], [](const double* row, std::size_t e) {
    const unsigned code = static_cast<unsigned>(row[e / kPairs]) >> 2 * (e % kPairs) & 3U;
    return static_cast<double>(code & 1U) - static_cast<double>(code >> 1U);
  });
}

void reference_sum_bytes(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  reference_sum(in, out[0], [](const double* row, std::size_t e) { return row[e]; });
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "largest",
           .summary = "the k elements of each row of x[..,n] farthest from 0, and their indices",
           .inputs = {"x"},
           .outputs = {"values", "indices"},
           .attributes = {{"k", std::int64_t{1}, false}},
           .infer = infer_largest,
           .factors = largest_factors,
           .work = per_input<1>,
           .reference = reference_largest},
          {.name = "pack_signs",
           .summary = "a bit for each sign of x[..,n], and the mean distance from 0",
           .inputs = {"x"},
           .outputs = {"bits", "scale"},
           .infer = infer_pack<DType::U8, kBits>,
           .factors = pack_factors,
           .work = per_input<2>,
           .reference = reference_pack_signs},
          {.name = "pack_ternary",
           .summary = "two bits for each of x[..,n]: 0, above or below; and how far those are",
           .inputs = {"x"},
           .outputs = {"bits", "scale"},
           .infer = infer_pack<DType::U8, kPairs>,
           .factors = pack_factors,
           .work = per_input<4>,
           .reference = reference_pack_ternary},
          {.name = "sum_ternary",
           .summary = "y[..,size] = the sum of what packed ternaries[p,..] stand for",
           .inputs = {"bits", "scale"},
           .outputs = {"y"},
           .attributes = {{"size", std::int64_t{0}, false}},
           .infer = infer_sum_bits<kPairs>,
           .factors = sum_bits_factors,
           .work = per_input<8>,
           .reference = reference_sum_ternary},
          {.name = "pack_bytes",
           .summary = "x[..,n] in whole multiples, up to 127, of a scale for each row",
           .inputs = {"x"},
           .outputs = {"codes", "scale"},
           .infer = infer_pack<DType::I8, 1>,
           .factors = pack_factors,
           .work = per_input<2>,
           .reference = reference_pack_bytes},
          {.name = "sum_signs",
           .summary = "y[..,size] = the sum of what packed signs[p,..] stand for",
           .inputs = {"bits", "scale"},
           .outputs = {"y"},
           .attributes = {{"size", std::int64_t{0}, false}},
           .infer = infer_sum_bits<kBits>,
           .factors = sum_bits_factors,
           .work = per_input<16>,
           .reference = reference_sum_signs},
          {.name = "sum_bytes",
           .summary = "y[..,n] = the sum of what packed codes[p,..,n] stand for",
           .inputs = {"codes", "scale"},
           .outputs = {"y"},
           .infer = infer_sum_bytes,
           .factors = sum_bytes_factors,
           .work = per_input<2>,
           .reference = reference_sum_bytes}};
}

}  // namespace trireme::ops::pack
