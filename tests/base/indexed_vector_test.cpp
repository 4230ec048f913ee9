#include "base/indexed_vector.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

namespace trireme {
namespace {

struct NodeNumber {
  std::int32_t index = 0;
};
enum class Color { Red, Green };

TEST(IndexedVector, SupportsNumbersEnumeratorsAndIds) {
  IndexedVector<std::int32_t, double> by_rank(std::int32_t{3});
  by_rank[2] = 5;
  EXPECT_EQ(by_rank.items(), (std::vector<double>{0, 0, 5}));
  EXPECT_EQ(by_rank.count(), 3);
  IndexedVector<Color, char> by_color{'r', 'g'};
  EXPECT_EQ(by_color[Color::Green], 'g');
  IndexedVector<NodeNumber, std::unique_ptr<int>> by_node(2);
  by_node[NodeNumber{1}] = std::make_unique<int>(7);
  EXPECT_EQ(*by_node[NodeNumber{1}], 7);
}

TEST(IndexedVector, RefusesIdsOfAnotherType) {
  static_assert(IndexOf<NodeNumber, NodeNumber> && IndexOf<std::size_t, std::int32_t>);
  static_assert(!IndexOf<Color, NodeNumber> && !IndexOf<int, Color> && !IndexOf<NodeNumber, int>);
}

TEST(IndexedVector, ListsItsIds) {
  const IndexedVector<NodeNumber, int> by_node{4, 5, 6};
  int sum = 0;
  for (const NodeNumber id : by_node.ids()) {
    sum += id.index * by_node[id];
  }
  EXPECT_EQ(sum, 5 + 2 * 6);
  EXPECT_TRUE(by_node.contains(NodeNumber{2}));
  EXPECT_FALSE(by_node.contains(NodeNumber{3}));
  EXPECT_FALSE(by_node.contains(NodeNumber{-1}));
}

TEST(IndexedArray, IsIndexedByEnumerators) {
  constexpr IndexedArray<Color, int, 2> kSizes{7, 8};
  static_assert(kSizes[Color::Green] == 8);
  EXPECT_EQ(kSizes.at(Color::Red), 7);
  EXPECT_THROW((void)kSizes.at(static_cast<Color>(2)), std::out_of_range);
}

TEST(IndexedVector, AtChecksBounds) {
  IndexedVector<std::int32_t, int> few(2, 1);
  EXPECT_EQ(few.at(1), 1);
  EXPECT_THROW((void)few.at(2), std::out_of_range);
  EXPECT_THROW((void)few.at(-1), std::out_of_range);
}

TEST(IndexedVector, IsRangeAndHoldsBits) {
  IndexedVector<std::int64_t, bool> bits(4);
  bits[std::int64_t{2}] = true;
  EXPECT_EQ(std::ranges::count(bits, true), 1);
  EXPECT_EQ(std::ranges::find(bits, true) - bits.begin(), 2);
}

}  // namespace
}  // namespace trireme
