#include "ps/simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme::ps {
namespace {

constexpr std::uint64_t kSeedsPerTest = 250;

class Simulation : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Simulation, LosesAndDuplicatesNothingUnderFaults) {
  SimulationResult total;
  for (std::uint64_t i = 0; i < kSeedsPerTest; ++i) {
    const std::uint64_t seed = GetParam() * kSeedsPerTest + i;
    const SimulationResult result = simulate({.seed = seed});
    ASSERT_EQ(result.problem, "") << "replay it with: ps_simulate --seed " << seed << " --trace";
    total.crashes += result.crashes;
    total.pauses += result.pauses;
    total.starvations += result.starvations;
    total.moves += result.moves;
    total.leaves += result.leaves;
    total.acknowledged += result.acknowledged;
    total.reads += result.reads;
    total.iterations += result.iterations;
    total.events += result.events;
  }
  // The runs must have tried what they claim to survive.
  EXPECT_GT(total.crashes, 2 * kSeedsPerTest);
  EXPECT_GT(total.pauses, 2 * kSeedsPerTest);
  EXPECT_GT(total.starvations, kSeedsPerTest / 4);
  EXPECT_GT(total.moves, kSeedsPerTest / 2);
  EXPECT_GT(total.leaves, kSeedsPerTest / 8);
  EXPECT_GT(total.acknowledged, 100 * kSeedsPerTest);
  EXPECT_GT(total.reads, 100 * kSeedsPerTest);
  RecordProperty("events", fmt::format("{}", total.events));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Simulation, testing::Range<std::uint64_t>(0, 8));

TEST(LongSimulation, LosesAndDuplicatesNothingInFortyThousandRuns) {
  constexpr std::uint64_t kRuns = 40'000;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    ASSERT_EQ(simulate({.seed = seed}).problem, "")
        << "replay it with: ps_simulate --seed " << seed << " --trace";
  }
}

TEST(SimulationSeed, ReproducesRun) {
  const SimulationResult first = simulate({.seed = 42});
  const SimulationResult second = simulate({.seed = 42});
  EXPECT_EQ(first.events, second.events);
  EXPECT_EQ(first.acknowledged, second.acknowledged);
  EXPECT_EQ(first.epochs, second.epochs);
}

}  // namespace
}  // namespace trireme::ps
