#include <gtest/gtest.h>

#include "collective/every_schedule.h"
#include "trireme/collective.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Every operation by every algorithm, all roots.
TEST(Verify, AcceptsWholeCatalogUpTo32Ranks) {
  int count = 0;
  for_every_schedule(1, 32, [&](const Case& c, const Schedule& schedule) {
    ++count;
    EXPECT_EQ(problems(schedule), std::vector<std::string>{}) << c.text();
  });
  EXPECT_GT(count, 10000);
}

TEST(Verify, AcceptsLargeOddRankCounts) {
  for (const Operation operation :
       {Operation::Allreduce, Operation::Broadcast, Operation::Scatter}) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (const Rank ranks : {33, 61, 64, 65}) {
        EXPECT_TRUE(problems(build(operation, algorithm, {.ranks = ranks})).empty())
            << to_text(algorithm) << " " << ranks;
      }
    }
  }
}

// The one-port checker. Trees, rings and pipelines obey the rule; a flat exchange does not.
TEST(Verify, ReportsOnePortViolations) {
  for_every_schedule(2, 17, [&](const Case& c, const Schedule& schedule) {
    const bool wide = c.algorithm == Algorithm::Flat || c.algorithm == Algorithm::Naive ||
                      c.algorithm == Algorithm::BinaryTree;
    if (!wide) {
      EXPECT_FALSE(find_port_conflict(schedule)) << c.text();
    } else if (c.options.ranks > 2) {
      EXPECT_TRUE(find_port_conflict(schedule)) << c.text();
    }
  });
  const auto flat =
      find_port_conflict(build(Operation::Reduce, Algorithm::Flat, {.ranks = 5, .root = 2}));
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->rank, 2);
  EXPECT_EQ(flat->receives, 4);
}

Schedule two_rank_broadcast(std::vector<Step> steps) {
  return {Operation::Broadcast, "test", 3, 0, Layout::Split, 1, std::move(steps)};
}

std::string first_error(const Schedule& schedule) {
  const std::vector<std::string> found = problems(schedule);
  return found.empty() ? "" : found.front();
}

Transfer copy(Rank from, Rank to) {
  return {from, to, Action::Copy, {BlockRun{}}};
}

TEST(Verify, ReportsBlockThatNeverArrives) {
  EXPECT_EQ(first_error(two_rank_broadcast({Step{{copy(1, 2)}, {}}})),
            "step 1, rank 1 to rank 2, block 0: the sender does not have it and never gets it");
}

TEST(Verify, ReportsBlockThatArrivesTooLate) {
  EXPECT_EQ(
      first_error(two_rank_broadcast({Step{{copy(1, 2)}, {}}, Step{{copy(0, 1)}, {}}})),
      "step 1, rank 1 to rank 2, block 0: the sender does not have it yet: it arrives in step 2");
}

TEST(Verify, ReportsDeadlockCycle) {
  EXPECT_EQ(first_error(two_rank_broadcast({Step{{copy(1, 2), copy(2, 1)}, {}}})),
            "step 1, rank 1 to rank 2, block 0: the sender does not have it: a cycle of waits, "
            "rank 1 waits for rank 2, "
            "which waits for rank 1");
}

TEST(Verify, ReportsMissingResults) {
  EXPECT_EQ(first_error(two_rank_broadcast({Step{{copy(0, 1)}, {}}})),
            "at the end rank 2 has 0 of 1 contributions to block 0");
}

TEST(Verify, RejectsDuplicateContributions) {
  Schedule reduce = build(Operation::Reduce, Algorithm::Mst, {.ranks = 4});
  reduce.steps.push_back(reduce.steps.back());
  EXPECT_NE(first_error(reduce).find("counted twice"), std::string::npos) << first_error(reduce);
}

// All messages of a step are concurrent, so the order of the lines must not matter.
TEST(Verify, RejectsCopyAndCombineIntoOneBlockInOneStep) {
  const Transfer copied = copy(1, 0);
  const Transfer added{2, 0, Action::Combine, {BlockRun{}}};
  for (const std::vector<Transfer>& order :
       {std::vector<Transfer>{copied, added}, std::vector<Transfer>{added, copied}}) {
    const Schedule race{Operation::Reduce, "race", 3, 0, Layout::Split, 1, {Step{order, {}}}};
    EXPECT_FALSE(problems(race).empty());
  }
}

TEST(Verify, RejectsMalformedSchedulesInsteadOfCrashing) {
  EXPECT_NE(first_error(two_rank_broadcast({Step{{copy(0, 3)}, {}}})).find("rank 3"),
            std::string::npos);
  EXPECT_NE(first_error(two_rank_broadcast({Step{{copy(1, 1)}, {}}})).find("itself"),
            std::string::npos);
  Schedule far_block =
      two_rank_broadcast({Step{{{0, 1, Action::Copy, {{0, 2, Block{1} << 62}}}}, {}}});
  EXPECT_NE(first_error(far_block).find("outside"), std::string::npos);
}

TEST(Verify, RejectsOversizedSchedules) {
  EXPECT_THROW((void)problems(build(Operation::Allgather, Algorithm::Ring, {.ranks = 8192})),
               Error);
}

// The reversed schedule of a broadcast is a reduce, and so on, in both directions.
TEST(Reverse, MapsOperationsToTheirDuals) {
  for_every_schedule(1, 12, [&](const Case& c, const Schedule& schedule) {
    if (c.operation == Operation::Allreduce || c.operation == Operation::Alltoall ||
        c.operation == Operation::Barrier) {
      return;
    }
    if (c.operation == Operation::Reduce && c.algorithm == Algorithm::Long) {
      return;  // reversed, its ring sends ranks what the tree has left with them
    }
    if (c.operation == Operation::Allgather && c.algorithm == Algorithm::Mst) {
      return;  // through a root: each rank gets its own block back
    }
    EXPECT_TRUE(problems(reversed(schedule)).empty()) << c.text();
    EXPECT_EQ(reversed(schedule).steps.size(), schedule.steps.size());
  });
  EXPECT_THROW((void)reversed(build(Operation::Allreduce, Algorithm::Ring, {.ranks = 4})), Error);
}

TEST(Reverse, AppliedTwiceIsIdentity) {
  for (const Algorithm algorithm : {Algorithm::Mst, Algorithm::Chain, Algorithm::Flat}) {
    const Schedule schedule =
        build(Operation::Broadcast, algorithm, {.ranks = 7, .root = 3, .segments = 2});
    EXPECT_EQ(reversed(reversed(schedule)), schedule);
  }
  const Schedule ring = build(Operation::Allgather, Algorithm::Ring, {.ranks = 9});
  EXPECT_EQ(reversed(reversed(ring)), ring);
}

}  // namespace
}  // namespace trireme
