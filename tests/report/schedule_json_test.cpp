#include "report/schedule_json.h"

#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "trireme/collective.h"

namespace trireme::report {
namespace {

Json json_of(const simulate::ScheduleReport& report) {
  std::string text;
  write_schedule_json(report, [&](std::string_view piece) { text += piece; });
  return parse_json(text, "schedule");
}

TEST(ScheduleJson, HasEveryMessageOfEveryStep) {
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 4});
  const Json json = json_of(simulate::make_schedule_report(ring, {1 << 20}, CostModel{}));
  EXPECT_EQ(json["operation"], "allreduce");
  EXPECT_EQ(json["verified"], true);
  ASSERT_EQ(json["steps"].size(), ring.steps.size());
  ASSERT_EQ(json["step_seconds"].size(), ring.steps.size());
  for (const Json& step : json["steps"]) {
    EXPECT_EQ(step.size(), 4U);
  }
}

// Pieces of about 1 MiB form one document.
TEST(ScheduleJson, WritesLargeScheduleInPieces) {
  const Schedule ring = build(Operation::Allgather, Algorithm::Ring, {.ranks = 200});
  const auto report = simulate::make_schedule_report(ring, {1 << 20}, CostModel{});
  int pieces = 0;
  std::size_t longest = 0;
  write_schedule_json(report, [&](std::string_view piece) {
    ++pieces;
    longest = std::max(longest, piece.size());
  });
  EXPECT_GT(pieces, 1);
  EXPECT_LT(longest, std::size_t{2} << 20);
  EXPECT_EQ(json_of(report)["steps"].size(), 199U);
}

}  // namespace
}  // namespace trireme::report
