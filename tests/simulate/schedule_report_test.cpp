#include "trireme/schedule_report.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/collective.h"

namespace trireme::simulate {
namespace {

const CostModel kCosts = CostModel::uniform({1e-6}, {1e-9}, {1e-10});

TEST(ScheduleReport, VerifiesAndTimes) {
  const ScheduleReport report = make_schedule_report(
      build(Operation::Allreduce, Algorithm::Ring, {.ranks = 4}), {1 << 20}, kCosts);
  EXPECT_EQ(report.problems, std::vector<std::string>{});
  EXPECT_EQ(report.traffic.messages, 4 * 6);
  EXPECT_GE(report.timing.seconds, report.lower_bound);
}

TEST(ScheduleReport, BarrierHasNoData) {
  const ScheduleReport report = make_schedule_report(
      build(Operation::Barrier, algorithms_for(Operation::Barrier).front(), {.ranks = 4}),
      {1 << 20}, kCosts);
  EXPECT_EQ(report.payload.elements, 0);
  EXPECT_EQ(report.traffic.bytes_total, Bytes{0});
}

TEST(ScheduleReport, DoesNotVerifyOversizedSchedules) {
  const ScheduleReport report = make_schedule_report(
      build(Operation::Alltoall, Algorithm::Pairwise, {.ranks = 256}), {1 << 20}, kCosts);
  EXPECT_FALSE(report.problems.has_value());
  EXPECT_FALSE(report.scratch_blocks.has_value());
}

TEST(BlocksText, JoinsNeighbors) {
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 4});
  const std::vector<BlockRun> run{{.first = 0, .count = 4, .stride = 1}};
  EXPECT_EQ(blocks_text(ring, run), "0-3");
}

TEST(ScheduleTrace, HasSendAndReceiveForEveryMessage) {
  const ScheduleReport report = make_schedule_report(
      build(Operation::Broadcast, Algorithm::Mst, {.ranks = 8}), {1 << 20}, kCosts);
  const Trace trace = predicted_trace(report);
  EXPECT_EQ(trace.spans.size(), 2 * static_cast<std::size_t>(report.traffic.messages));
  EXPECT_EQ(trace.flows.size(), static_cast<std::size_t>(report.traffic.messages));
  EXPECT_EQ(problems(trace), std::vector<std::string>{});
}

}  // namespace
}  // namespace trireme::simulate
