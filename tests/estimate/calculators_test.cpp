#include "estimate/calculators.h"

#include <cmath>

#include <gtest/gtest.h>

#include "estimate/example_value.h"
#include "expect_error.h"
#include "trireme/energy.h"

namespace trireme {
namespace {

TEST(Calculators, OverlapGainsLittleAtRatioOneToTen) {
  EXPECT_DOUBLE_EQ(value("server-bottleneck", "ratio"), 10);
  EXPECT_DOUBLE_EQ(value("server-bottleneck", "step"), 11);
  EXPECT_DOUBLE_EQ(value("server-bottleneck", "gain of overlap"), 1.1);
  EXPECT_DOUBLE_EQ(value("server-bottleneck", "step with shards"), 2);
}

TEST(Calculators, ServerWithOnePortHandlesTwoMessagesPerWorker) {
  const ExampleInputs set{
      {"compute", 3}, {"workers", 7}, {"alpha", 1e-3}, {"bytes", 1e6}, {"bandwidth", 1e9}};
  EXPECT_DOUBLE_EQ(value("server-bottleneck", "step", set), 3 + 2 * 7 * (1e-3 + 1e6 / 1e9));
}

TEST(Calculators, StragglersGrowWithWorkerCount) {
  EXPECT_NEAR(value("stragglers", "a straggler in a step"), 0.077, 5e-4);
  EXPECT_NEAR(value("stragglers", "a straggler in a step", {{"workers", 64}}), 0.474, 5e-4);
  EXPECT_NEAR(value("stragglers", "a straggler in a step", {{"workers", 256}}), 0.924, 5e-4);
  EXPECT_NEAR(value("stragglers", "slowest of exponentials", {{"workers", 4}}), 25.0 / 12, 1e-12);
}

TEST(Calculators, OneHalfSpeedWorkerHalvesThroughput) {
  EXPECT_EQ(value("stragglers", "throughput with a barrier"), 0.5);
  EXPECT_EQ(value("stragglers", "throughput without waiting"), 7.5 / 8);
  EXPECT_EQ(value("stragglers", "throughput with a barrier", {{"slow", 0}}), 1);
}

TEST(Calculators, BoundsStaleUpdates) {
  EXPECT_NEAR(value("ssp-bound", "bound"), 0.32, 1e-12);
  EXPECT_NEAR(value("ssp-bound", "bound with a barrier"), 0.16, 1e-12);
  EXPECT_NEAR(value("ssp-bound", "bound", {{"updates", 4e4}}), 0.16, 1e-12);
  EXPECT_NEAR(value("ssp-bound", "bound", {{"staleness", 15}}), 0.64, 1e-12);
}

TEST(Calculators, SpeedupIsBelowWorkerCount) {
  const double step = 33.0 / 100 + 2 * 99 * (5e-6 + 1e6 / 12.5e9);
  EXPECT_DOUBLE_EQ(value("strong-scaling", "speedup"), 33 / step);
  EXPECT_DOUBLE_EQ(value("strong-scaling", "efficiency"), 33 / step / 100);
  EXPECT_LT(value("strong-scaling", "efficiency"), 1);
  EXPECT_EQ(value("strong-scaling", "efficiency", {{"workers", 1}}), 1);
}

TEST(Calculators, ComputesMemoryOfZeroLevels) {
  EXPECT_EQ(value("zero", "nothing sharded"), 120e9);
  EXPECT_NEAR(value("zero", "optimizer state (1)"), 31.4e9, 0.05e9);
  EXPECT_NEAR(value("zero", "and gradients (2)"), 16.6e9, 0.05e9);
  EXPECT_NEAR(value("zero", "and parameters (3)"), 1.88e9, 0.005e9);
}

TEST(Calculators, ComputesServersForDataSet) {
  EXPECT_EQ(value("dbrx", "bytes per token"), 5);
  EXPECT_NEAR(value("dbrx", "share that fits"), 0.217, 5e-4);
  EXPECT_EQ(value("dbrx", "servers"), 5);
  EXPECT_EQ(value("dbrx", "share that fits", {{"server", 1e15}}), 1);
}

TEST(Calculators, ComputesEnergyOfDeviceYears) {
  EXPECT_NEAR(value("energy", "energy"), 2.47e6, 0.005e6);  // kWh
  // 36 days without a break are 108.5 days of 8 hours each, of which 5 minutes are lost.
  EXPECT_NEAR(value("energy", "without a break"), 36.04, 0.01);
  EXPECT_NEAR(value("energy", "in the supply's hours"), 109.5, 0.5);
  EXPECT_EQ(value("energy", "in the supply's hours", {{"hours", 0.05}}), INFINITY);
}

TEST(Calculators, RejectUnknownInputsAndValuesOutOfRange) {
  expect_error(ErrorKind::Usage, "example zero has no input 'x'; it has parameters and devices",
               [] {
                 (void)example("zero", {{"x", 1}});
               });
  expect_error(ErrorKind::Usage, "share: invalid value 1.5: expected a number from 0 to 1", [] {
    (void)example("stragglers", {{"share", 1.5}});
  });
  expect_error(ErrorKind::Usage, "example mfu has no inputs to set", [] {
    (void)example("mfu", {{"x", 1}});
  });
}

TEST(Calculators, AcceptEveryDocumentedInput) {
  for (const Calculator& calculator : calculators()) {
    for (const ExampleLine& line : calculator.make({}).given) {
      EXPECT_EQ(calculator.make({{line.input, line.value}}).results.size(),
                calculator.make({}).results.size());
    }
  }
}

TEST(Windows, JobRunsOnlyInsideThem) {
  const std::vector<TimeWindow> supply{{{0}, {10}}, {{20}, {21}}, {{30}, {50}}, {{60}, {90}}};
  for (const double work : {0.0, 3.0, 10.0, 12.0, 25.0, 40.0, 200.0}) {
    const WindowedRun run = run_in_windows({.work = {work}, .restart = {2}}, supply);
    double total = run.remaining.count;
    for (std::size_t i = 0; i < run.runs.size(); ++i) {
      const TimeWindow& at = run.runs[i];
      total += at.end.count - at.start.count - (i > 0 ? 2 : 0);
      bool inside = false;
      for (const TimeWindow& window : supply) {
        inside = inside || (window.start <= at.start && at.end <= window.end);
      }
      EXPECT_TRUE(inside) << work << " " << at.start.count;
    }
    EXPECT_DOUBLE_EQ(total, work);
    EXPECT_EQ(run.finishes(), work <= 10 + 18 + 28) << work;
  }
}

TEST(Windows, RejectOverlap) {
  EXPECT_THROW((void)run_in_windows({.work = {1}}, {{{0}, {2}}, {{1}, {3}}}), Error);
  EXPECT_THROW((void)run_in_windows({.work = {1}}, {{{2}, {1}}}), Error);
  EXPECT_THROW((void)daily_windows(20, 5, 1), Error);
  EXPECT_EQ(daily_windows(9, 8, 2).back(), (TimeWindow{{33 * 3600.0}, {41 * 3600.0}}));
}

}  // namespace
}  // namespace trireme
