#include "base/text.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace trireme {
namespace {

TEST(Text, SplitsWordsAtRunsOfBlanks) {
  EXPECT_EQ(split_words("  a  bc\td "), (std::vector<std::string_view>{"a", "bc", "d"}));
  EXPECT_TRUE(split_words("   ").empty());
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
}

TEST(Text, ParsesWholeIntegersOnly) {
  EXPECT_EQ(parse_integer("-12"), -12);
  for (const char* text : {"", "12x", "1e3", " 1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(text)) << text;
  }
}

TEST(Text, SuggestsNearestWordWithinDistance) {
  const std::vector<std::string> words{"ring", "bruck", "recursive-doubling"};
  EXPECT_EQ(nearest_word("rign", words), "ring");
  EXPECT_EQ(nearest_word("recursive-dubling", words), "recursive-doubling");
  EXPECT_EQ(nearest_word("recursive", words), "recursive-doubling");
  EXPECT_FALSE(nearest_word("completely-else", words));
  EXPECT_FALSE(nearest_word("", words));
}

TEST(Check, ReportsFailedConditionAsBug) {
  try {
    TRIREME_CHECK(1 + 1 == 3, "arithmetic");
    FAIL() << "no throw";
  } catch (const Bug& bug) {
    EXPECT_NE(std::string(bug.what()).find("1 + 1 == 3: arithmetic"), std::string::npos)
        << bug.what();
  }
}

}  // namespace
}  // namespace trireme
