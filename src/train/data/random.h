// Counter-based random numbers: the same inputs give the same number on every machine and rank, and any number can be
// computed without its predecessors. Callable from any thread.
#pragma once

#include <cstdint>

namespace trireme::train {

/// Spreads every bit of `value` over all 64 (the finalizer of SplitMix64; Steele, Lea, Flood 2014).
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111eb;
  return value ^ (value >> 31U);
}

/// The counter-th random number of the stream `seed`.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  return scramble(scramble(seed) ^ (counter * 0xd6e8feb86659fd93));
}

/// The same, as a number in [0, 1) with 53 random bits.
[[nodiscard]] constexpr double random_unit(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<double>(random_bits(seed, counter) >> 11U) * 0x1p-53;
}

}  // namespace trireme::train
