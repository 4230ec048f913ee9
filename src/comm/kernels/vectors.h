// Vectors of a fixed number of bytes, which GCC and clang compile for any machine, and the conversions of 16-bit floats
// that need nothing else. Callable from any thread.
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

/// The floats of one vector of 16-bit numbers. The widening and narrowing functions decide which is in which lane.
template <std::size_t kBytes>
struct TwoVectors {
  Vector<float, kBytes> first;
  Vector<float, kBytes> second;
};

/// The same value in all lanes.
template <class V, class T>
[[gnu::always_inline]] inline V every(T value) {
  return V{} + value;
}

/// Even-numbered elements into `first`, odd ones into `second`: shifts only, no shuffles.
template <std::size_t kBytes>
TwoVectors<kBytes> widen_bf16(Vector<std::uint32_t, kBytes> raw) {
  using Floats = Vector<float, kBytes>;
  return {__builtin_bit_cast(Floats, raw << 16), __builtin_bit_cast(Floats, raw & 0xffff0000U)};
}

/// The upper half of each lane gets the nearest bf16, ties to even, of a float that is a number or the NaN without
/// payload; the lower half is unspecified.
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
