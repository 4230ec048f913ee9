// Each planted protocol fault must be noticed by the simulator's checks: tests of the checks themselves.
#include <cstdint>
#include <exception>

#include <gtest/gtest.h>

#include "ps/protocol/fault.h"
#include "ps/simulator.h"

namespace trireme::ps {
namespace {

constexpr std::uint64_t kMaxSeeds = 2000;

/// A fault may also leave a server in a state that it cannot continue from.
bool is_noticed_in(std::uint64_t seed) {
  try {
    return !simulate({.seed = seed}).problem.empty();
  } catch (const std::exception&) {
    return true;
  }
}

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsDetected) {
  selected_fault = GetParam();
  bool is_noticed = false;
  for (std::uint64_t seed = 0; seed < kMaxSeeds && !is_noticed; ++seed) {
    is_noticed = is_noticed_in(seed);
  }
  selected_fault.reset();
  EXPECT_TRUE(is_noticed) << "fault " << static_cast<int>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PlantedFault,
    testing::Values(Fault::AcknowledgeAtHead, Fault::AcceptStaleEpoch, Fault::ServeWithoutLease,
                    Fault::DropPullsWithoutLease, Fault::ServeAtHead, Fault::ServeUnsynced,
                    Fault::IgnoreSequences, Fault::SnapshotWithoutSequences, Fault::SkipGaps,
                    Fault::IgnoreIncarnation, Fault::ReuseEpoch, Fault::ForgetViews,
                    Fault::ExpireEarly, Fault::AdmitLearnerEarly, Fault::DropLastSynced,
                    Fault::IgnoreReadMyWrites, Fault::RenumberRetries, Fault::StartEarly,
                    Fault::ShareProcess, Fault::ClockBeforeAcknowledged));

TEST(NoPlantedFault, ReportsNothing) {
  EXPECT_EQ(simulate({.seed = 1}).problem, "");
}

}  // namespace
}  // namespace trireme::ps
