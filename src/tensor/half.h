// Arrays of bf16 or f16 to and from f32. Any thread.
#pragma once

#include <cstddef>
#include <span>

#include "trireme/tensor.h"

namespace trireme {

/// bf16 or f16.
[[nodiscard]] bool is_half(DType dtype);

/// Writes the elements of `from` to `to` as f32, twice the bytes. Neither needs to be aligned; they must not overlap.
/// Requires is_half(dtype).
void widen_halves(DType dtype, std::span<const std::byte> from, std::byte* to);

/// Rounds the f32 elements at `from` to 16-bit elements at `to`: the inverse of widen_halves().
void narrow_to_halves(DType dtype, const std::byte* from, std::span<std::byte> to);

}  // namespace trireme
