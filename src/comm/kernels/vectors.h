// Vectors of a fixed number of bytes, which GCC and clang compile for any machine, and what of the
// 16-bit floats needs nothing more. Any thread.
//
// For loop_bodies.h and the instruction sets only. Everything here is a template on the vector's
// size, so that no two instruction sets share a function.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::comm {

template <class T, std::size_t kBytes>
struct VectorOf {
  using Type [[gnu::vector_size(kBytes)]] = T;
};
template <class T, std::size_t kBytes>
using Vector = typename VectorOf<T, kBytes>::Type;

/// The floats of one vector of 16-bit numbers. Which is in which lane is up to those who widen and
/// narrow.
template <std::size_t kBytes>
struct TwoVectors {
  Vector<float, kBytes> first;
  Vector<float, kBytes> second;
};

/// All lanes the same.
template <class V, class T>
[[gnu::always_inline]] inline V every(T value) {
  return V{} + value;
}

/// Every second number into `first`, the others into `second`: shifts only, no shuffles.
template <std::size_t kBytes>
TwoVectors<kBytes> widen_bf16(Vector<std::uint32_t, kBytes> raw) {
  using Floats = Vector<float, kBytes>;
  return {__builtin_bit_cast(Floats, raw << 16), __builtin_bit_cast(Floats, raw & 0xffff0000U)};
}

/// In the upper half of each lane the nearest bf16, ties to even, of a float that is a number or the
/// NaN without payload; in the lower half rubbish.
template <std::size_t kBytes>
Vector<std::uint32_t, kBytes> round_to_upper_half(Vector<float, kBytes> value) {
  const auto bits = __builtin_bit_cast(Vector<std::uint32_t, kBytes>, value);
  return bits + 0x7fffU + ((bits >> 16) & 1U);
}

template <std::size_t kBytes>
Vector<std::uint32_t, kBytes> narrow_bf16(const TwoVectors<kBytes>& wide) {
  return (round_to_upper_half<kBytes>(wide.first) >> 16) |
         (round_to_upper_half<kBytes>(wide.second) & 0xffff0000U);
}

}  // namespace trireme::comm
