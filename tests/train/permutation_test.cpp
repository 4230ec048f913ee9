#include "train/data/permutation.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

std::vector<std::int64_t> all_of(std::int64_t n, std::uint64_t seed) {
  const Permutation permutation(n, seed);
  std::vector<std::int64_t> values(n);
  for (std::int64_t i = 0; i < n; ++i) {
    values[i] = permutation.at(i);
  }
  return values;
}

TEST(Permutation, ContainsEveryNumberOnce) {
  for (std::int64_t n = 1; n <= 300; ++n) {
    for (const std::uint64_t seed : {0, 1, 7}) {
      std::vector<std::int64_t> values = all_of(n, seed);
      std::ranges::sort(values);
      std::vector<std::int64_t> expected(n);
      std::iota(expected.begin(), expected.end(), 0);
      ASSERT_EQ(values, expected) << n;
    }
  }
}

TEST(Permutation, IsDeterminedBySeed) {
  EXPECT_NE(all_of(100, 1), all_of(100, 2));
  EXPECT_EQ(all_of(100, 1), all_of(100, 1));
}

TEST(Permutation, WorksOnHugeRanges) {
  const std::int64_t n = (std::int64_t{1} << 62) + 12345;
  const Permutation permutation(n, 3);
  EXPECT_NE(permutation.at(0), permutation.at(1));
  EXPECT_LT(permutation.at(n - 1), n);
}

// In a random order every number is equally likely in every position: over 8000 seeds, each of the 8 positions of the
// first number occurs 1000 +- 30 times.
TEST(Permutation, FirstElementMovesAnywhere) {
  std::vector<int> counts(8);
  for (std::uint64_t seed = 0; seed < 8000; ++seed) {
    ++counts[Permutation(8, seed).at(0)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1000, 150);
  }
}

}  // namespace
}  // namespace trireme::train
