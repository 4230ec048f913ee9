#include "trireme/schedule.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include <gtest/gtest.h>

#include "collective/every_schedule.h"
#include "expect_error.h"
#include "trireme/collective_cost.h"
#include "trireme/error.h"

namespace trireme {
namespace {

Schedule split_into(Block blocks) {
  return {Operation::Broadcast, "test", 4, 0, Layout::Split, blocks, {}};
}

// n not a multiple of the blocks, n smaller than the blocks, n = 0.
TEST(BlockExtent, SplitsAnyLengthIntoNearlyEqualBlocks) {
  for (const Block blocks : {1, 2, 3, 7, 16}) {
    for (const std::int64_t elements : {0, 1, 2, 6, 7, 8, 100, 1000003}) {
      std::int64_t next = 0;
      for (Block b = 0; b < blocks; ++b) {
        const Extent extent = block_extent(split_into(blocks), elements, b);
        EXPECT_EQ(extent.offset, next);
        EXPECT_LE(extent.length - elements / blocks, 1);
        EXPECT_GE(extent.length - elements / blocks, 0);
        next += extent.length;
      }
      EXPECT_EQ(next, elements);
    }
  }
}

TEST(ElementCount, OfRangeIsSumOfItsBlocks) {
  for (const Layout layout : {Layout::Split, Layout::Replicas, Layout::Pairs}) {
    const Schedule schedule{Operation::Alltoall, "test", 4, 0, layout, 16, {}};
    for (const std::int64_t elements : {0, 3, 16, 23, 1000}) {
      for (const BlockRun& run :
           {BlockRun{0, 16, 1}, BlockRun{3, 4, 2}, BlockRun{0, 4, 5}, BlockRun{15, 1, 1}}) {
        std::int64_t sum = 0;
        for_each_block({&run, 1},
                       [&](Block b) { sum += block_extent(schedule, elements, b).length; });
        EXPECT_EQ(element_count(schedule, elements, {&run, 1}), sum);
      }
    }
  }
}

// Bytes a rank sends and receives in a ring, also with uneven or empty blocks.
TEST(RingBytes, ExcludeOwnBlock) {
  for (const Rank p : {1, 2, 3, 5, 8, 17}) {
    for (const std::int64_t n : {0, 1, p - 1, p, p + 1, 1000}) {
      const Schedule gather = build(Operation::Allgather, Algorithm::Ring, {.ranks = p});
      const Traffic gathered = count_traffic(gather, {n});
      const Traffic reduced =
          count_traffic(build(Operation::ReduceScatter, Algorithm::Ring, {.ranks = p}), {n});
      for (Rank r = 0; r < p; ++r) {
        const std::int64_t own = block_extent(gather, n, r).length;
        const std::int64_t right = block_extent(gather, n, (r + 1) % p).length;
        EXPECT_EQ(gathered.received[r].count, n - own);
        EXPECT_EQ(gathered.sent[r].count, n - right);
        EXPECT_EQ(reduced.sent[r].count, n - own);
      }
    }
  }
}

TEST(Rotation, KeepsRingOf1024RanksSmall) {
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 1024});
  std::size_t rules = 0;
  for (const Step& step : ring.steps) {
    rules += step.rotations.size() + step.transfers.size();
  }
  EXPECT_EQ(ring.steps.size(), 2046U);
  EXPECT_EQ(rules, 2046U);
}

// What one rank sees of a step is what the whole step contains for it.
TEST(Rotation, GivesEachRankItsOwnMessages) {
  using Seen = std::vector<std::tuple<Rank, Rank, Action, std::vector<BlockRun>>>;
  const auto note = [](Seen& seen) {
    return [&seen](const Message& m) {
      seen.emplace_back(m.from, m.to, m.action,
                        std::vector<BlockRun>(m.blocks.begin(), m.blocks.end()));
    };
  };
  for_every_schedule(2, 9, [&](const Case& c, const Schedule& schedule) {
    for (const Step& step : schedule.steps) {
      Seen all;
      for_each_message(step, note(all));
      for (Rank rank = 0; rank < schedule.ranks; ++rank) {
        Seen own;
        for_each_message_of(step, rank, note(own));
        Seen expected;
        std::ranges::copy_if(all, std::back_inserter(expected), [&](const auto& m) {
          return std::get<0>(m) == rank || std::get<1>(m) == rank;
        });
        const auto order = [](const auto& a, const auto& b) {
          return std::pair(std::get<0>(a), std::get<1>(a)) <
                 std::pair(std::get<0>(b), std::get<1>(b));
        };
        std::ranges::stable_sort(own, order);
        std::ranges::stable_sort(expected, order);
        ASSERT_EQ(own, expected) << c.text() << " rank " << rank;
      }
    }
  });
}

TEST(Schedule, SingleRankHasNoSteps) {
  for_every_schedule(1, 1, [](const Case& c, const Schedule& schedule) {
    EXPECT_EQ(count_traffic(schedule, {100}).messages, 0) << c.text();
    EXPECT_EQ(time_schedule(schedule, {100}, {}).seconds.count, 0) << c.text();
  });
}

TEST(Compose, SequentialAndParallelCountTheirSteps) {
  const Schedule a = build(Operation::Broadcast, Algorithm::Mst, {.ranks = 8});
  const Schedule b = build(Operation::Broadcast, Algorithm::Chain, {.ranks = 8, .segments = 1});
  EXPECT_EQ(then(a, b).steps.size(), a.steps.size() + b.steps.size());
  EXPECT_EQ(in_parallel(a, b).steps.size(), std::max(a.steps.size(), b.steps.size()));
}

// The compositions, built by hand from their parts.
TEST(Compose, CompositionIdentitiesHold) {
  const Rank p = 6;
  const auto make = [&](Operation o, Algorithm a) { return build(o, a, {.ranks = p}); };
  const auto holds = [](Schedule schedule, Operation operation) {
    schedule.operation = operation;
    return problems(schedule).empty();
  };
  using enum Operation;
  const Schedule reduce = refined(make(Reduce, Algorithm::Mst), p);
  const Schedule broadcast = refined(make(Broadcast, Algorithm::Mst), p);
  EXPECT_TRUE(holds(then(reduce, make(Scatter, Algorithm::Mst)), ReduceScatter));
  EXPECT_TRUE(holds(then(reduce, broadcast), Allreduce));
  EXPECT_TRUE(holds(then(make(Gather, Algorithm::Mst), broadcast), Allgather));
  EXPECT_TRUE(
      holds(then(make(ReduceScatter, Algorithm::Ring), make(Gather, Algorithm::Mst)), Reduce));
  EXPECT_TRUE(holds(then(make(ReduceScatter, Algorithm::Ring), make(Allgather, Algorithm::Ring)),
                    Allreduce));
  // Long broadcast is scatter + all-gather, minus the messages that would send a rank what it has.
  Schedule plain = make(Broadcast, Algorithm::Long);
  EXPECT_TRUE(problems(plain).empty());
  for (Step& step : plain.steps) {
    for (Rotation& rotation : step.rotations) {
      rotation.silent.clear();
    }
  }
  EXPECT_EQ(plain.steps,
            then(make(Scatter, Algorithm::Mst), make(Allgather, Algorithm::Ring)).steps);
  EXPECT_FALSE(holds(then(make(Scatter, Algorithm::Mst), broadcast), Allgather));
}

TEST(Scratch, CoversOnlyBlocksOutsideCallerBuffers) {
  const auto blocks = [](Operation o, Algorithm a, Rank p) {
    return scratch_blocks(build(o, a, {.ranks = p}));
  };
  EXPECT_EQ(blocks(Operation::Broadcast, Algorithm::Mst, 8), 0);
  EXPECT_EQ(blocks(Operation::Allgather, Algorithm::Ring, 8), 0);
  EXPECT_EQ(blocks(Operation::Allreduce, Algorithm::Ring, 8), 0);
  EXPECT_EQ(blocks(Operation::Alltoall, Algorithm::Pairwise, 8), 0);
  EXPECT_EQ(blocks(Operation::Scatter, Algorithm::Mst, 8),
            3);  // half of the ranks' blocks, minus its own
  EXPECT_EQ(blocks(Operation::Reduce, Algorithm::Mst, 8), 1);  // a partial sum in transit
  EXPECT_EQ(blocks(Operation::ReduceScatter, Algorithm::Ring, 8), 2);
  EXPECT_GT(blocks(Operation::Alltoall, Algorithm::Bruck, 8), 0);
  EXPECT_EQ(blocks(Operation::Allreduce, Algorithm::WholeRing, 8), 2);
}

TEST(Build, RejectsInvalidRequestsInOneLine) {
  const auto message = [](Operation o, Algorithm a, const BuildOptions& options) {
    return error_message(ErrorKind::Usage, [&] { (void)build(o, a, options); });
  };
  EXPECT_EQ(message(Operation::Broadcast, Algorithm::Mst, {.ranks = 0}),
            "0 ranks; there must be 1 to 1048576");
  EXPECT_EQ(message(Operation::Broadcast, Algorithm::Mst, {.ranks = 4, .root = 4}),
            "invalid root 4; with 4 ranks it must be 0 to 3");
  EXPECT_EQ(message(Operation::Allreduce, Algorithm::Ring, {.ranks = 4, .root = 1}),
            "allreduce has no root; leave it out");
  EXPECT_EQ(message(Operation::Alltoall, Algorithm::Mst, {.ranks = 4}),
            "mst does not do alltoall; these do: pairwise, bruck and two-level");
  EXPECT_EQ(message(Operation::Allreduce, Algorithm::TwoLevel, {.ranks = 6, .ranks_per_node = 4}),
            "two-level needs nodes of equal size: 6 ranks do not divide into nodes of 4");
  EXPECT_NE(message(Operation::Broadcast, Algorithm::Chain, {.ranks = 4, .segments = 0}), "");
}

}  // namespace
}  // namespace trireme
