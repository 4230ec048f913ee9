#include <random>

#include <gtest/gtest.h>

#include "damage.h"
#include "expect_error.h"
#include "plan/every_pipeline.h"

namespace trireme {
namespace {

TEST(PipelineText, IsReadable) {
  EXPECT_EQ(to_text(make_pipeline("chimera", {.ranks = 2, .microbatches = 2})),
            "trireme pipeline 1\n"
            "name chimera\n"
            "ranks 2\n"
            "stages 2\n"
            "microbatches 2\n"
            "weights single\n"
            "place 0 1\n"
            "place 1 0\n"
            "rank 0: F0.0 F1.1/1 B1.1/1 B0.0 U0.1 U1.1/1\n"
            "rank 1: F0.1/1 F1.0 B1.0 B0.1/1 U1.1 U0.1/1\n"
            "end\n");
}

TEST(PipelineText, RoundTrips) {
  for_every_pipeline(8, 16, [](const PipelineOptions&, const PipelineTable& table) {
    EXPECT_TRUE(parse_pipeline(to_text(table)) == table);
  });
}

TEST(PipelineText, AllowsCommentsAndBlanks) {
  const PipelineTable table = parse_pipeline(
      "# mine\ntrireme pipeline 1\nname x\n\nranks 1\nstages 1\nmicrobatches 1  # one\n"
      "weights single\nplace 0\n  rank   0: F0.0   B0.0 U0.0\nend\n");
  EXPECT_EQ(problems_text(table), "");
  EXPECT_EQ(table.name, "x");
}

constexpr std::string_view kGood =
    "trireme pipeline 1\nname x\nranks 2\nstages 2\nmicrobatches 1\nweights single\nplace 0 1\n"
    "rank 0: F0.0 B0.0 U0.0\nrank 1: F1.0 B1.0 U1.0\nend\n";

void expect_refused(std::string_view what, std::string_view instead, std::string_view words) {
  std::string text(kGood);
  const std::size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), instead);
  expect_error(ErrorKind::Input, words, [&] { (void)parse_pipeline(text); });
}

TEST(PipelineText, NamesBadLine) {
  EXPECT_EQ(problems_text(parse_pipeline(kGood)), "");
  expect_refused("pipeline 1", "pipeline 2", "line 1: expected 'trireme pipeline 1'");
  expect_refused("name x", "name", "line 2: expected 'name VALUE'");
  expect_refused("ranks 2", "ranks many", "line 3: 'many' is not a number from 1 to 4096");
  expect_refused("stages 2", "stages 0", "line 4: '0' is not a number from 1 to");
  expect_refused("microbatches 1", "microbatches 99999999999999999999", "line 5");
  expect_refused("single", "double", "line 6: 'double' is neither single, newest nor previous");
  expect_refused("place 0 1", "place 0", "line 7: expected 'place' and the ranks of 2 stages");
  expect_refused("place 0 1", "place 0 2", "line 7: '2' is not a number from 0 to 1");
  expect_refused("F0.0", "X0.0", "line 8: invalid task 'X0.0'; write it like F2.0");
  expect_refused("F0.0", "F0", "line 8: invalid task 'F0'");
  expect_refused("F0.0", "F0.7", "line 8: '7' is not a number from 0 to 0");
  expect_refused("F0.0", "F2.0", "line 8: '2' is not a number from 0 to 1");
  expect_refused("F0.0", "F0.0/1", "line 8: '1' is not a number from 0 to 0");
  expect_refused("rank 1", "rank 2", "line 9: expected 'rank 1: …'");
  expect_refused("rank 1: F1.0 B1.0 U1.0\n", "", "line 9: expected 'rank 1: …' before 'end'");
  expect_refused("end\n", "rank 2: F0.0\nend\n", "line 10: there are only 2 ranks");
  expect_refused("end\n", "", "line 10: the text stops before 'end'");
  expect_refused("end\n", "end\nmore\n", "line 11: text after 'end'");
}

// Any damaged text is either parsed or rejected; what is parsed can be verified and printed.
TEST(PipelineText, SurvivesDamage) {
  std::mt19937 random(7);
  const std::string text = to_text(make_pipeline("zb-v", {.ranks = 3, .microbatches = 4}));
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    try {
      const PipelineTable table = parse_pipeline(damaged(text, random));
      ++read;
      EXPECT_TRUE(parse_pipeline(to_text(table)) == table);
      if (problems(table).empty()) {
        (void)time_pipeline(table, PipelineDurations{});
        (void)live_versions(table);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
    }
  }
  EXPECT_GT(read, 10);
}

}  // namespace
}  // namespace trireme
