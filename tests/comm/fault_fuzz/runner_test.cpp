// Runs without faults, and what runs leave behind.
#include "comm/fault_fuzz/runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "comm/fault_fuzz/judge.h"
#include "comm/net/fd.h"

namespace trireme::fault_fuzz {
namespace {

TEST(FaultRunner, FinishesEveryOpWithoutFaults) {
  Scenario scenario{.transport = Transport::Shm,
                    .deadline = 2,
                    .hosts = {0, 0, 0},
                    .length = 0.2,
                    .ops = {},
                    .faults = {}};
  for (int i = 0; i < kOps; ++i) {
    scenario.ops.push_back({static_cast<Op::Kind>(i), 100});
  }
  const Record record = run(scenario, Leftovers::Files::Unchecked);
  for (const RankRecord& rank : record.ranks) {
    EXPECT_EQ(rank.end, RankRecord::End::Exited);
    EXPECT_GT(rank.steps, 0);
  }
  EXPECT_TRUE(judge(scenario, record).violations.empty()) << describe(record);
}

TEST(FaultRunner, RecordsKilledRank) {
  const Scenario scenario = parse_scenario(
      "transport shm\ndeadline 2\nhosts 0 0\nlength 0.2\nop allreduce 10\nfault kill rank 1 at "
      "0.1\n");
  const Record record = run(scenario, Leftovers::Files::Unchecked);
  ASSERT_EQ(record.strikes.size(), 1U);
  EXPECT_EQ(record.ranks[0].end, RankRecord::End::Exited) << describe(record);
  EXPECT_EQ(record.ranks[1].end, RankRecord::End::Killed) << describe(record);
}

TEST(FaultRunner, DetectsLeakedDescriptor) {
  const Leftovers leftovers(Leftovers::Files::Unchecked);
  EXPECT_TRUE(leftovers.find().empty());
  const comm::Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(leftovers.find().empty());
}

}  // namespace
}  // namespace trireme::fault_fuzz
