#include "trireme/recompute_choice.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace trireme {
namespace {

TEST(RecomputeChoice, TextRoundTrips) {
  for (const char* text : {"none", "selective", "full", "0MiB", "64MiB", "4096MiB", "1048577B"}) {
    EXPECT_EQ(to_text(parse_recompute(text)), text);
  }
  EXPECT_EQ(to_text(parse_recompute("1.5GiB")), "1536MiB");
  EXPECT_EQ(parse_recompute("1000").budget, Bytes{1000});
  EXPECT_EQ(parse_recompute("none"), RecomputeChoice{});
  for (const RecomputeMode mode :
       {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
    EXPECT_EQ(parse_recompute_mode(to_text(mode)), mode);
  }
}

TEST(RecomputeChoice, RejectsInvalidText) {
  for (const char* text : {"", "most", "Full", "-1MiB", "full,64MiB"}) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::Usage, "use none, selective or full, or a size such as 64MiB",
                 [&] { (void)parse_recompute(text); });
  }
  expect_error(ErrorKind::Usage, "'5x' is not a size", [] { (void)parse_recompute("5x"); });
  expect_error(ErrorKind::Usage, "unknown recomputation '64MiB'; use none, selective or full",
               [] { (void)parse_recompute_mode("64MiB"); });
}

TEST(RecomputeChoice, ReportsWhetherAnythingIsRecomputed) {
  EXPECT_FALSE(parse_recompute("none").any());
  EXPECT_TRUE(parse_recompute("selective").any());
  EXPECT_TRUE(parse_recompute("64MiB").any());
}

}  // namespace
}  // namespace trireme
