// The loops over data: copying and combining, vectorized for the host's instruction set. Any thread; the only state is
// the instruction set detected on first use.
//
// Results are bitwise equal on every instruction set. Every two-operand reduction is bitwise commutative, so two ranks
// that combine the same two buffers agree whichever comes first:
// - integers wrap around; Average divides the wrapped sum and rounds towards zero;
// - f16 and bf16 are combined (and divided) in f32 and rounded once at the end;
// - Min and Max are IEEE 754-2019 minimum and maximum: a NaN wins, and -0 is less than +0;
// - a NaN that results from combining or dividing is the positive quiet one with no payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/kernels/combine.h"
#include "trireme/comm_call.h"
#include "trireme/tensor.h"

namespace trireme::comm {

/// Copies. The two must not overlap. Streaming stores are fenced before it returns.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores);

/// targets[k][i] = inputs[0][i] (+) inputs[1][i] (+) … for every target k and i in [0, count): one
/// pass, each input read once. Contributions are combined from the first to the last, or (Order
/// Fixed) by the balanced tree: the first half (rounded up) with the second half, each likewise. One
/// input is copied bit for bit unless it is divided. A target may be the same memory as an input,
/// from its first element on; otherwise they do not overlap. Data is aligned to its elements. At
/// least one input and one target. Streaming stores are fenced before it returns.
void combine_many(const Combine& how, std::span<const std::byte* const> inputs,
                  std::span<std::byte* const> targets, std::int64_t count, Stores stores);

/// data[i] = data[i] / ranks, for the end of an Average by messages.
void divide(DType dtype, std::byte* data, std::int64_t count, std::int64_t ranks);

/// Why this combination is invalid (bitwise reductions of floats), or "".
[[nodiscard]] const char* refuse_reduction(DType dtype, Reduction reduction);

/// "avx512", "avx2" or "baseline": the instruction set in use.
[[nodiscard]] const char* instruction_set();

}  // namespace trireme::comm
