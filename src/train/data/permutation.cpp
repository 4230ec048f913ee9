#include "train/data/permutation.h"

#include <bit>

#include <fmt/format.h>

#include "base/check.h"
#include "train/data/random.h"

namespace trireme::train {

Permutation::Permutation(std::int64_t n, std::uint64_t seed) : n_(static_cast<std::uint64_t>(n)) {
  TRIREME_CHECK(n >= 1, fmt::format("a permutation of {} numbers", n));
  const auto bits = static_cast<unsigned>(std::bit_width(n_ - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    keys_.at(i) = random_bits(seed, i);
  }
}

std::uint64_t Permutation::shuffle_once(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t mixed = left ^ (scramble(key ^ right) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::int64_t Permutation::at(std::int64_t place) const {
  auto value = static_cast<std::uint64_t>(place);
  TRIREME_CHECK(value < n_, fmt::format("place {} of {}", place, n_));
  do {
    value = shuffle_once(value);
  } while (value >= n_);
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme::train
