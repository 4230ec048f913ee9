#include "simulate/shared_cores.h"

#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

constexpr SharedCores kTwoCores{.cores = 2, .threads = 1, .speedup_alone = 1.25, .turn = 4e-3};

/// When each rank has done all of its work and gives its core up.
std::map<int, double> finish_all(CoreSchedule& cores) {
  std::map<int, double> finished;
  for (double time = cores.next(); std::isfinite(time); time = cores.next()) {
    if (const std::optional<int> rank = cores.step()) {
      finished[*rank] = time;
      cores.release(*rank);
    }
  }
  return finished;
}

/// The time of ranks that all compute for so long from the same moment on, without another rank to wait for.
double computing(int ranks, double seconds) {
  CoreSchedule cores(kTwoCores, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    cores.run(rank, seconds);
  }
  double last = 0;
  for (const auto& [rank, time] : finish_all(cores)) {
    last = std::max(last, time);
  }
  return last;
}

TEST(SharedCores, LoneRankIsFaster) {
  EXPECT_DOUBLE_EQ(computing(1, 0.5), 0.4);
  EXPECT_DOUBLE_EQ(computing(2, 0.5), 0.5);
}

TEST(SharedCores, EvenlyDividedRanksTakeTurns) {
  EXPECT_NEAR(computing(4, 0.001), 0.002, 1e-12);
  EXPECT_NEAR(computing(4, 0.5), 1, 1e-9);
}

TEST(SharedCores, OddRanksLoseLessThanTurn) {
  EXPECT_NEAR(computing(3, 0.001), 0.001 + 0.001 / 1.25, 1e-12) << "the last one alone";
  EXPECT_NEAR(computing(3, 0.005), 0.0088, 0.0003) << "7.5 ms in fair shares";
  EXPECT_NEAR(computing(3, 0.040), 0.060, 1e-9) << "fair shares";
}

TEST(SharedCores, WakingRankTakesIdleCore) {
  CoreSchedule cores(kTwoCores, 3);
  cores.run(2, 0.001);  // on core 0
  EXPECT_EQ(cores.step(), 2);
  cores.release(2);
  cores.run(0, 0.010);  // there as well
  cores.run(2, 0.001);
  EXPECT_TRUE(cores.holds_core(2));
}

TEST(SharedCores, WakingRankQueuesUntilTurnEnds) {
  CoreSchedule cores({.cores = 1, .threads = 1, .turn = 4e-3}, 2);
  cores.run(0, 0.010);
  cores.advance_to(0.001);
  cores.run(1, 0.001);
  EXPECT_FALSE(cores.holds_core(1));
  const std::map<int, double> finished = finish_all(cores);
  EXPECT_NEAR(finished.at(1), 0.005, 1e-12);
  EXPECT_NEAR(finished.at(0), 0.011, 1e-12);
}

TEST(SharedCores, QueuedRankMovesToIdleCoreWhenTurnEnds) {
  CoreSchedule cores({.cores = 2, .threads = 1, .turn = 4e-3}, 3);
  cores.run(0, 0.010);
  cores.run(1, 0.001);
  cores.run(2, 0.010);  // behind rank 0
  const std::map<int, double> finished = finish_all(cores);
  EXPECT_NEAR(finished.at(0), 0.010, 1e-12);
  EXPECT_NEAR(finished.at(2), 0.014, 1e-12) << "core 1 is idle from 1 to 4 ms";
}

TEST(SharedCores, NeighborsShareCoreAtFirst) {
  SharedCores shared{.cores = 2, .threads = 1, .turn = 4e-3};
  const auto holders = [&](CorePlacement placement) {
    shared.placement = placement;
    CoreSchedule cores(shared, 4);
    std::vector<int> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      cores.run(rank, 0.001);
    }
    for (int rank = 0; rank < 4; ++rank) {
      if (cores.holds_core(rank)) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  };
  EXPECT_EQ(holders(CorePlacement::Alternating), (std::vector{0, 1}));
  EXPECT_EQ(holders(CorePlacement::Neighbors), (std::vector{0, 2}));
}

TEST(SharedCores, TransfersSlowComputingDown) {
  CoreSchedule cores(kTwoCores, 2);
  cores.use(0, 0.001, 2);
  cores.run(0, 0.001);
  cores.run(1, 0.001);
  const std::map<int, double> finished = finish_all(cores);
  EXPECT_NEAR(finished.at(0), 0.0015, 1e-12);
  EXPECT_NEAR(finished.at(1), 0.0015, 1e-12);
}

TEST(SharedCores, ComputingSlowsTransfersDown) {
  CoreSchedule cores(kTwoCores, 2);
  EXPECT_DOUBLE_EQ(cores.crowding(2), 1);
  cores.run(0, 0.001);
  EXPECT_DOUBLE_EQ(cores.crowding(1), 1);
  EXPECT_DOUBLE_EQ(cores.crowding(2), 1.5);
}

}  // namespace
}  // namespace trireme::simulate
