// Real processes, killed and paused. Leases are long, because test machines are loaded; `trireme ps chaos` measures with
// short ones.
#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "trireme/error.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {
namespace {

void survive(std::size_t faults, std::uint64_t seed) {
  const TemporaryFolder folder;
  const ChaosResult result = run_chaos({.seed = seed,
                                        .faults = faults,
                                        .lease = {0.5},
                                        .serve_command = {TRIREME_PROGRAM, "ps", "serve"},
                                        .folder = folder.path()});
  EXPECT_EQ(result.kills + result.pauses, faults);
  EXPECT_GT(result.acknowledged, 0U);
  EXPECT_EQ(result.lost, 0U);
  EXPECT_EQ(result.doubled, 0U);
}

TEST(Chaos, LosesAndDoublesNothingWhenProcessesAreKilledAndPaused) {
  survive(12, 1);
}

TEST(LongChaos, LosesAndDoublesNothingInAThousandFaults) {
  survive(1000, 2);
}

TEST(Chaos, RefusesAClusterThatCannotRecover) {
  EXPECT_THROW((void)run_chaos({.servers = 2, .replicas = 2, .serve_command = {}, .folder = {}}),
               Error);
}

}  // namespace
}  // namespace trireme::ps
