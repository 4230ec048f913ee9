// Random: numbers that a seed determines, the same on every platform.
#pragma once

#include <cstdint>

namespace trireme::fault_fuzz {

/// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  /// From `low` to `high`, both included.
  int integer(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// From `low` up to `high`, in hundredths, so that it survives being printed.
  double hundredths(double low, double high) {
    return integer(static_cast<int>(low * 100), static_cast<int>(high * 100)) / 100.0;
  }
  bool one_in(int n) { return integer(1, n) == 1; }

 private:
  std::uint64_t state_;
};

}  // namespace trireme::fault_fuzz
