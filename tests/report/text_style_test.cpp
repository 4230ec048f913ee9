#include "report/text_style.h"

#include <gtest/gtest.h>

namespace trireme::report {
namespace {

TEST(TextStyle, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("α = 1 µs"), 8);
  EXPECT_EQ(padded("β", 3), "β  ");
  EXPECT_EQ(right_aligned("β", 3), "  β");
  EXPECT_EQ(padded("wider", 3), "wider");
}

TEST(TextStyle, LeavesTextUnchangedWithoutColor) {
  EXPECT_EQ(styled("yes", Style::Good, false), "yes");
  EXPECT_EQ(styled("yes", Style::Good, true), "\x1b[32myes\x1b[0m");
}

}  // namespace
}  // namespace trireme::report
