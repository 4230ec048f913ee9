// A random order of 0 … n-1 of which any place can be asked for alone. Any thread.
#pragma once

#include <array>
#include <cstdint>

namespace trireme::train {

/// A permutation chosen by its seed. Takes no memory for the n numbers: a Feistel network permutes the
/// 2^2h numbers of which [0, n) is a part of at least a quarter, and is applied again until it lands in
/// it (Black and Rogaway 2002, "cycle walking").
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
