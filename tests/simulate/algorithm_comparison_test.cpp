#include "trireme/algorithm_comparison.h"

#include <vector>

#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

TEST(SizeRange, IncludesBothEnds) {
  EXPECT_EQ(size_range({8}, {128}, 4), (std::vector<Bytes>{{8}, {32}, {128}}));
  EXPECT_EQ(size_range({8}, {100}, 4), (std::vector<Bytes>{{8}, {32}, {100}}));
  EXPECT_EQ(size_range({8}, {8}, 4), (std::vector<Bytes>{{8}}));
}

// 2052 bytes: where 3α + 3nβ + 3nγ meets 6α + 7/4 nβ + 7/8 nγ.
TEST(AlgorithmComparison, FindsCrossoverToTheByte) {
  Selector selector(CostModel::uniform({1e-6}, {1e-9}, {1e-10}));
  const AlgorithmComparison comparison = compare_algorithms(
      selector, {.operation = Operation::Allreduce, .ranks = 8}, {{8}, {1 << 20}});
  ASSERT_EQ(comparison.rows.size(), 2U);
  ASSERT_EQ(comparison.crossovers.size(), 1U);
  EXPECT_EQ(comparison.crossovers.front().bytes, Bytes{2052});
  EXPECT_EQ(comparison.crossovers.front().before, Algorithm::RecursiveDoubling);
  EXPECT_EQ(comparison.crossovers.front().after, Algorithm::RecursiveHalving);
}

}  // namespace
}  // namespace trireme::simulate
