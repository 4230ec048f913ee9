// One element of bf16 or f16 to and from f32, without branches so that loops over them vectorize. Any thread.
//
// Always inlined: the CPU backend includes this in files that are compiled once for each instruction set, and must not
// share a copy with the others.
#pragma once

#include <bit>
#include <cstdint>

#include "trireme/tensor.h"

namespace trireme::half {

/// Exact. A signaling NaN stays one.
[[nodiscard, gnu::always_inline]] inline float widen(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Exact; a NaN is made quiet. Read as a float, the shifted bits are 2^112 too small, subnormals too.
[[nodiscard, gnu::always_inline]] inline float widen(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t special =
      (magnitude >= 0x7C00U ? 0x7F800000U : 0U) | (magnitude > 0x7C00U ? 0x00400000U : 0U);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

/// To the nearest, ties to even; a NaN stays one, made quiet.
[[nodiscard, gnu::always_inline]] inline BFloat16 narrow_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded)};
}

/// To the nearest, ties to even; a NaN stays one, made quiet. Adding 0.5, whose last place is 2^-24, rounds a subnormal
/// correctly.
[[nodiscard, gnu::always_inline]] inline Float16 narrow_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t nearest =
      (magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
  const std::uint32_t normal = nearest < 0x7C00U ? nearest : 0x7C00U;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const std::uint32_t nan = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  const std::uint32_t rounded = magnitude > 0x7F800000U ? nan : finite;
  return {static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | rounded)};
}

}  // namespace trireme::half
