#include "simulate/shared_cores.h"

#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

/// The time on a host with two cores of ranks that all compute for so long, in the same moment.
double computing(int ranks, double seconds) {
  CoreTimeline timeline({.cores = 2, .threads = 1, .speedup_alone = 1.25});
  for (int rank = 0; rank < ranks; ++rank) {
    timeline.use(0, seconds, 1);
  }
  return timeline.host_time(seconds);
}

TEST(SharedCores, LoneRankIsFaster) {
  EXPECT_DOUBLE_EQ(computing(1, 0.5), 0.4);
  EXPECT_DOUBLE_EQ(computing(2, 0.5), 0.5);
}

TEST(SharedCores, EvenlyDividedRanksTakeTurns) {
  EXPECT_DOUBLE_EQ(computing(4, 0.001), 0.002);
  EXPECT_DOUBLE_EQ(computing(4, 0.5), 1);
}

TEST(SharedCores, OddRanksTakeWholeTurnsForTenMilliseconds) {
  EXPECT_DOUBLE_EQ(computing(3, 0.001), 0.002);
  EXPECT_DOUBLE_EQ(computing(3, 0.010), 0.020);
  EXPECT_DOUBLE_EQ(computing(3, 0.040), 0.020 + 1.5 * 0.030);
}

TEST(SharedCores, WholeTurnsRestartAfterPause) {
  const auto two_phases = [](double pause) {
    CoreTimeline timeline({.cores = 2, .threads = 1});
    for (int rank = 0; rank < 3; ++rank) {
      timeline.use(0, 0.020, 1);
      timeline.use(0.020 + pause, 0.040, 1);
    }
    return timeline.host_time(0.040);
  };
  EXPECT_NEAR(two_phases(1e-6), 0.065, 1e-5) << "one phase of 40 ms";
  EXPECT_NEAR(two_phases(1e-3), 0.020 + 0.015 + 0.001 + 0.020 + 0.0135, 1e-9);
}

}  // namespace
}  // namespace trireme::simulate
