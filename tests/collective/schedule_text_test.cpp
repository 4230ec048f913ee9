#include <gtest/gtest.h>

#include "collective/every_schedule.h"
#include "trireme/error.h"
#include "trireme/schedule.h"

namespace trireme {
namespace {

TEST(ScheduleText, RoundTripsWholeCatalog) {
  for_every_schedule(1, 13, [](const Case& c, const Schedule& schedule) {
    EXPECT_EQ(parse_schedule(to_text(schedule)), schedule) << c.text();
  });
}

TEST(ScheduleText, MatchesGoldenText) {
  EXPECT_EQ(to_text(build(Operation::Scatter, Algorithm::Mst, {.ranks = 4, .root = 1})),
            "trireme schedule 1\n"
            "operation scatter\n"
            "algorithm mst\n"
            "ranks 4\n"
            "root 1\n"
            "layout split\n"
            "blocks 4\n"
            "step\n"
            "copy 1 -> 3 : 2-3\n"
            "step\n"
            "copy 1 -> 0 : 0\n"
            "copy 3 -> 2 : 2\n"
            "end\n");
  EXPECT_EQ(to_text(build(Operation::ReduceScatter, Algorithm::Ring, {.ranks = 2})),
            "trireme schedule 1\n"
            "operation reduce-scatter\n"
            "algorithm ring\n"
            "ranks 2\n"
            "root 0\n"
            "layout split\n"
            "blocks 2\n"
            "step\n"
            "add 0+1*2 >> 1 : 0+1*[i+1]\n"
            "end\n");
}

TEST(ScheduleText, SkipsCommentsAndBlankLines) {
  const Schedule schedule = parse_schedule(
      "# mine\ntrireme schedule 1\n\noperation broadcast # to all\nalgorithm mine\nranks 2\nroot "
      "0\nlayout split\n"
      "blocks 1\nstep\n  copy 0 -> 1 : 0\nend\n# the end\n\n");
  EXPECT_EQ(schedule.algorithm, "mine");
  EXPECT_EQ(schedule.steps.size(), 1U);
}

constexpr const char* kHead =
    "trireme schedule 1\noperation gather\nalgorithm a\nranks 4\nroot 0\nlayout split\nblocks 4\n";

TEST(ScheduleText, ErrorsNameLine) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      (void)parse_schedule(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Input);
      return e.what();
    }
    return "accepted";
  };
  const std::string head = kHead;
  EXPECT_EQ(error(""), "schedule, line 1: the text stops before 'end'");
  EXPECT_EQ(error("hello"), "schedule, line 1: expected 'trireme schedule 1'");
  EXPECT_EQ(error(head + "step\ncopy 0 -> 1 : 0\n"),
            "schedule, line 10: the text stops before 'end'");
  EXPECT_EQ(error(head + "step\ncopy 0 -> x : 0\nend\n"),
            "schedule, line 9: 'x' is not a number that fits");
  EXPECT_EQ(error(head + "step\nmove 0 -> 1 : 0\nend\n"),
            "schedule, line 9: 'move' is neither copy nor add");
  EXPECT_EQ(error(head + "step\ncopy 0 -> 1 : 3-1\nend\n"),
            "schedule, line 9: '3-1' does not step from its first block to its last");
  EXPECT_EQ(error(head + "step\ncopy 0 -> 9 : 0\nend\n"),
            "schedule: step 1: rank 9 is outside of 0..3");
  EXPECT_EQ(error(head + "step\ncopy 0+1*9 >> 1 : 0+1*[i+0]\nend\n"),
            "schedule: step 1: 9 places from rank 0 with stride 1 are not in 0..3");
  // The text form is canonical, so that equal schedules have equal texts.
  EXPECT_EQ(error(head + "step\ncopy 0+1*4 >> 1 : 0+1*[i+0]x1/2\nend\n"),
            "schedule: step 1: a single block with stride 2; write it without");
  EXPECT_EQ(error(head + "step\ncopy 0+1*4 >> 1 : 0+0*[i+1]+1*[i+0]\nend\n"),
            "schedule: step 1: a row turn of 1 without a row stride; leave it out");
  EXPECT_EQ(error(head + "end\nmore\n"), "schedule, line 9: text after 'end'");
  EXPECT_EQ(error(head + "copy 0 -> 1 : 0\n"), "schedule, line 8: expected 'step' or 'end'");
  EXPECT_EQ(error("trireme schedule 1\noperation dance\n").substr(0, 46),
            "schedule, line 2: unknown operation 'dance'; u");
}

// Truncating the text or changing any single byte gives an error or another well-formed schedule,
// never a crash.
TEST(ScheduleText, SurvivesDamageAnywhere) {
  const std::string text =
      to_text(build(Operation::Alltoall, Algorithm::TwoLevel, {.ranks = 6, .ranks_per_node = 3}));
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'\0', '9', '-', '\n', '*', 'z'}) {
      std::string damaged = text;
      damaged[at] = c;
      for (const std::string& candidate : {damaged, text.substr(0, at)}) {
        try {
          EXPECT_EQ(form_problems(parse_schedule(candidate)), std::vector<std::string>{});
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::Input);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
