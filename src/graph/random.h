// Random numbers as functions, not sequences: the number at (seed, step, index) is always the same, on every device and
// at any time. So the backward recomputes the same mask, and the shards of a tensor on several devices are consistent.
//
// The generator is Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011):
// ten rounds of two 32 x 32 -> 64 bit products scramble a counter of 128 bits under a key of 64. One call yields four
// words, for four adjacent elements:
//
//   key      seed
//   counter  index / 4 (61 bits) | use (2 bits) | step (64 bits)
//   word     index % 4
//
// All functions but the last are constexpr and exact, so that the kernels of every device can use them directly; for
// normal(), which takes logarithms and cosines, they implement their own on top of polar_point(). Callable from any
// thread.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

namespace trireme::random {

using Words = std::array<std::uint32_t, 4>;

/// The increments of the two halves of the key in each round: from the golden ratio; and the square root of 3, less 1.
inline constexpr std::uint32_t kLowKeyStep = 0x9E3779B9;
inline constexpr std::uint32_t kHighKeyStep = 0xBB67AE85;
inline constexpr int kRounds = 10;

/// One round of the generator; kernels run it for many counters at once.
[[nodiscard]] constexpr Words philox_round(const Words& counter, std::uint32_t low_key,
                                           std::uint32_t high_key) noexcept {
  const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
  const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
  return {
      static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ low_key, static_cast<std::uint32_t>(b),
      static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ high_key, static_cast<std::uint32_t>(a)};
}

/// One block of the generator.
[[nodiscard]] constexpr Words philox(Words counter, std::uint64_t key) noexcept {
  auto low_key = static_cast<std::uint32_t>(key);
  auto high_key = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < kRounds; ++round) {
    counter = philox_round(counter, low_key, high_key);
    low_key += kLowKeyStep;
    high_key += kHighKeyStep;
  }
  return counter;
}

/// What numbers are used for; with the same seed, step and index, different uses get different numbers.
enum class Use : std::uint32_t { Mask = 0, Normal = 1 };

/// Identifies a sequence of numbers: the same for all elements of a tensor.
struct Stream {
  std::int64_t seed = 0;
  std::int64_t step = 0;
  Use use = Use::Mask;
};

[[nodiscard]] constexpr Words counter_of(const Stream& stream, std::uint64_t block) noexcept {
  const auto step = static_cast<std::uint64_t>(stream.step);
  const std::uint32_t use = static_cast<std::uint32_t>(stream.use) << 30U;
  return {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U) | use,
          static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32U)};
}

/// The words of the elements 4 block, ..., 4 block + 3.
[[nodiscard]] constexpr Words block_words(const Stream& stream, std::uint64_t block) noexcept {
  return philox(counter_of(stream, block), static_cast<std::uint64_t>(stream.seed));
}

/// Words below this are dropped: the smallest with word / 2^32 >= rate, which is in [0, 1].
[[nodiscard]] constexpr std::uint64_t drop_below(double rate) noexcept {
  const double exact = rate * 4294967296.0;
  const auto floor = static_cast<std::uint64_t>(exact);
  return static_cast<double>(floor) < exact ? floor + 1 : floor;
}

/// Whether a mask keeps this element.
[[nodiscard]] constexpr bool keeps(const Stream& stream, std::uint64_t index,
                                   std::uint64_t threshold) noexcept {
  return block_words(stream, index / 4)[index % 4] >= threshold;
}

/// A number in (0, 1), exact in f64.
[[nodiscard]] constexpr double uniform(std::uint32_t word) noexcept {
  return (static_cast<double>(word) + 0.5) / 4294967296.0;
}

/// The index, in the full tensor, of an element of a shard that begins at `offset`. All three have the same number of
/// dimensions; without dimensions: 0. Row 1 of the shard [2,3] at [2,0] of [4,3]: element 3 is 9.
[[nodiscard]] constexpr std::uint64_t index_in_whole(std::uint64_t element,
                                                     std::span<const std::int64_t> part,
                                                     std::span<const std::int64_t> offset,
                                                     std::span<const std::int64_t> whole) noexcept {
  std::uint64_t index = 0;
  std::uint64_t step = 1;
  for (std::size_t d = part.size(); d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(part[d]);
    index += (element % size + static_cast<std::uint64_t>(offset[d])) * step;
    step *= static_cast<std::uint64_t>(whole[d]);
    element /= size;
  }
  return index;
}

/// The Box-Muller point of an element: two adjacent elements share it, the first takes the cosine of its angle, the
/// second the sine.
struct PolarPoint {
  double uniform = 0;  ///< radius = sqrt(-2 ln uniform)
  double turn = 0;     ///< angle = 2 pi turn
  bool sine = false;
};

[[nodiscard]] constexpr PolarPoint polar_point(const Stream& stream, std::uint64_t index) noexcept {
  const Words words = block_words(stream, index / 4);
  const std::size_t first = index % 4 / 2 * 2;
  return {uniform(words[first]), uniform(words[first + 1]), index % 2 == 1};
}

/// A number from the standard normal distribution; magnitude at most 6.8.
[[nodiscard]] inline double normal(const Stream& stream, std::uint64_t index) {
  const PolarPoint point = polar_point(stream, index);
  const double angle = 2 * std::numbers::pi * point.turn;
  return std::sqrt(-2 * std::log(point.uniform)) * (point.sine ? std::sin(angle) : std::cos(angle));
}

}  // namespace trireme::random
