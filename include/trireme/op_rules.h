// Helpers shared by the rows of many ops: type rules, factors and work of element-wise ops.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/op.h"

namespace trireme::rules {

// Type rules.

/// One result, like the first input.
[[nodiscard]] std::vector<TensorType> like_first(const Signature& s);
void require_float(const Signature& s, std::size_t input);
/// Rejects a statistic of x whose type is not statistics_type().
void require_statistic(const Signature& s, std::size_t statistic, std::size_t x);
void require_integer(const Signature& s, std::size_t input);
void require_rank(const Signature& s, std::size_t input, int rank);
void require_same_type(const Signature& s, std::size_t a, std::size_t b);
void require_same_dtype(const Signature& s, std::size_t a, std::size_t b);
/// The axis as a non-negative index; -1 is the last. Rejects an invalid axis.
[[nodiscard]] int axis_of(const Signature& s, std::int64_t axis, int rank);
/// One number per row: for [B,T,C], [B,T].
[[nodiscard]] Shape rows_of(const Shape& shape);
/// The type of statistics of rows, and of losses: at least f32.
[[nodiscard]] DType statistics_type(DType rows);

// Factors.

/// A factor for each dimension of the first input; other operands' dimensions are aligned at the last one (so [C]
/// matches the C of [B,T,C]). Results are like the first input.
[[nodiscard]] Factors elementwise_factors(const Signature& s);
/// Factors from letters: each operand is a string with a letter for each dimension, as in an einsum. Letters in
/// `unshardable` cannot be sharded. Sizes are those of the inputs, or of `results` for letters that appear only there.
struct Letters {
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::string unshardable{};
};
[[nodiscard]] Factors factors_by_letters(const Signature& s, const Letters& letters);
/// The size of a shard of each of these dimensions.
[[nodiscard]] std::vector<std::int64_t> part_of_dims(const Factors::Dims& dims,
                                                     std::span<const IndexRange> ranges);
/// For Op::part: the attribute "shape" is the first result's.
[[nodiscard]] Attributes part_of_shape(const Signature& whole, std::span<const IndexRange> ranges);
/// "abc…" for a shape of this rank.
[[nodiscard]] std::string letters_for(int rank);

// Work.

/// Each operand once, no arithmetic.
[[nodiscard]] double bytes_of_operands(const Signature& s);
/// This many FLOPs for each element of the first result.
template <int kFlops>
[[nodiscard]] Work per_element(const Signature& s) {
  return {.others = static_cast<double>(kFlops) *
                    static_cast<double>(s.op->infer(s).at(0).shape.element_count()),
          .bytes = bytes_of_operands(s)};
}

// Gradients.

/// `value` summed to `shape`, its trailing dimensions; `value` itself if the shapes are equal.
[[nodiscard]] ValueId sum_to(GraphBuilder& builder, ValueId value, const Shape& shape);

}  // namespace trireme::rules
