// f16 to and from f32 by integer arithmetic, several at once, for machines without instructions for
// it. Same bits as to_f32 and to_f16 (tensor.h), except that a NaN has no payload. Callable from
// any thread.
#pragma once

#include "comm/kernels/vectors.h"

namespace trireme::comm {

/// From f16 bits, one in the lower half of each lane, the upper half zero.
template <std::size_t kBytes>
Vector<float, kBytes> soft_f16_to_f32(Vector<std::int32_t, kBytes> bits) {
  using Ints = Vector<std::int32_t, kBytes>;
  using Floats = Vector<float, kBytes>;
  const Ints magnitude = bits & 0x7fff;
  constexpr std::int32_t kRebias = (127 - 15) << 23;
  const Ints normal = (magnitude << 13) + kRebias;
  // A subnormal counts units of 2^-24.
  const Ints subnormal =
      __builtin_bit_cast(Ints, __builtin_convertvector(magnitude, Floats) * 0x1p-24F);
  // The distance from exponent 31 to 255 is a second rebias.
  Ints value = magnitude >= 0x7c00 ? normal + kRebias : normal;
  value = magnitude < 0x0400 ? subnormal : value;
  const Ints sign = (bits & 0x8000) << 16;
  return __builtin_bit_cast(Floats, value | sign);
}

/// To f16 bits in the lower half of each lane, the upper half zero.
template <std::size_t kBytes>
Vector<std::int32_t, kBytes> soft_f32_to_f16(Vector<float, kBytes> value) {
  using Ints = Vector<std::int32_t, kBytes>;
  using Floats = Vector<float, kBytes>;
  constexpr std::int32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr std::int32_t kTooLarge = 0x47800000;        // 2^16: below this, rounding is correct
  constexpr std::int32_t kF32Infinity = 0x7f800000;
  constexpr std::int32_t kHalf = 0x3f000000;  // 0.5
  constexpr std::int32_t kRebias = (127 - 15) << 23;
  const auto bits = __builtin_bit_cast(Ints, value);
  const Ints magnitude = bits & 0x7fffffff;
  // A carry out of the fraction correctly lands in the exponent, up to and including infinity.
  const Ints normal = (magnitude - kRebias + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  // 0.5 has units of 2^-24, like subnormals: the addition rounds to them.
  const Floats shifted = __builtin_bit_cast(Floats, magnitude) + 0.5F;
  const Ints subnormal = __builtin_bit_cast(Ints, shifted) - kHalf;
  Ints result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude >= kTooLarge ? every<Ints>(0x7c00) : result;
  result = magnitude > kF32Infinity ? every<Ints>(0x7e00) : result;
  return result |
         (__builtin_bit_cast(Ints, __builtin_bit_cast(Vector<std::uint32_t, kBytes>, bits) >> 16) &
          0x8000);
}

template <std::size_t kBytes>
TwoVectors<kBytes> soft_widen_f16(Vector<std::uint32_t, kBytes> raw) {
  using Ints = Vector<std::int32_t, kBytes>;
  return {soft_f16_to_f32<kBytes>(__builtin_bit_cast(Ints, raw & 0xffffU)),
          soft_f16_to_f32<kBytes>(__builtin_bit_cast(Ints, raw >> 16))};
}

template <std::size_t kBytes>
Vector<std::uint32_t, kBytes> soft_narrow_f16(const TwoVectors<kBytes>& wide) {
  using Words = Vector<std::uint32_t, kBytes>;
  return __builtin_bit_cast(Words, soft_f32_to_f16<kBytes>(wide.first)) |
         (__builtin_bit_cast(Words, soft_f32_to_f16<kBytes>(wide.second)) << 16);
}

}  // namespace trireme::comm
