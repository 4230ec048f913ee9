// A random order of 0 … n-1 with random access. Callable from any thread.
#pragma once

#include <array>
#include <cstdint>

namespace trireme::train {

/// A permutation determined by its seed, in O(1) memory: a Feistel network permutes 2^2h >= n numbers, at most 4n, and
/// is applied repeatedly until the result is below n (Black and Rogaway 2002, "cycle walking").
class Permutation {
 public:
  /// Requires n >= 1.
  Permutation(std::int64_t n, std::uint64_t seed);

  /// Requires 0 <= place < n.
  [[nodiscard]] std::int64_t at(std::int64_t place) const;

 private:
  [[nodiscard]] std::uint64_t shuffle_once(std::uint64_t value) const;

  std::uint64_t n_;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, 6> keys_{};
};

}  // namespace trireme::train
