#include <cmath>

#include <gtest/gtest.h>

#include "collective/every_schedule.h"
#include "collective/test_costs.h"

namespace trireme {
namespace {

/// A vector that every block of the schedule divides.
Payload even_payload(const Schedule& schedule) {
  return {8 * (schedule.layout == Layout::Pairs ? schedule.ranks : schedule.blocks)};
}

// The simulated time of a schedule equals its formula.
TEST(Formula, MatchesScheduleTimeForEveryRankCountAndRoot) {
  for_every_schedule(1, 33, [](const Case& c, const Schedule& schedule) {
    const Payload payload = even_payload(schedule);
    const double timed = time_schedule(schedule, payload, kCosts).seconds.count;
    const double closed = formula(c.operation, c.algorithm, c.options)
                              .at(c.operation == Operation::Barrier ? 0 : payload.elements, kCosts)
                              .count;
    const double paid = c.operation == Operation::Barrier
                            ? time_schedule(schedule, {0}, kCosts).seconds.count
                            : timed;
    EXPECT_NEAR(paid, closed, 1e-12 * closed) << c.text();
  });
}

// Inside the nodes over fast links, between them over slow ones.
TEST(Formula, TwoLevelFormulaMatchesTwoLevelTime) {
  for_every_schedule(2, 24, [](const Case& c, const Schedule& schedule) {
    if (c.algorithm != Algorithm::TwoLevel || c.operation == Operation::Barrier) {
      return;
    }
    const CostModel costs{{{c.options.ranks_per_node, {1e-6}, {1e-9}}, {0, {7e-6}, {2e-8}}},
                          {1e-10}};
    const Payload payload = even_payload(schedule);
    const double closed =
        formula(c.operation, c.algorithm, c.options).at(payload.elements, costs).count;
    EXPECT_NEAR(time_schedule(schedule, payload, costs).seconds.count, closed, 1e-12 * closed)
        << c.text();
  });
}

TEST(Formula, NeverBeatsLowerBound) {
  for_every_schedule(1, 33, [](const Case& c, const Schedule&) {
    const Formula cost = formula(c.operation, c.algorithm, c.options);
    const Terms all = cost.inner + cost.outer;
    const Terms bound = lower_bound(c.operation, c.options.ranks);
    for (const double bytes : {0.0, 100.0, 1e4, 1e9}) {  // the sum of the terms is a bound, too
      const double sum =
          lower_bound(c.operation, c.options.ranks, {static_cast<std::int64_t>(bytes)}, kCosts)
              .count;
      EXPECT_GE(cost.at(bytes, kCosts).count, sum * (1 - 1e-12)) << c.text();
    }
    EXPECT_GE(all.alpha, bound.alpha - 1e-12) << c.text();
    EXPECT_GE(all.gamma, bound.gamma - 1e-12) << c.text();
    // The bandwidth bound of all-reduce holds only if the computation bound is met as well.
    const bool shares_the_work =
        c.operation != Operation::Allreduce || all.gamma <= bound.gamma + 1e-12;
    if (shares_the_work) {
      EXPECT_GE(all.beta, bound.beta - 1e-12) << c.text();
    }
  });
}

// The bound also holds for the schedules themselves, whatever the size of their blocks.
TEST(Timing, IsNeverBelowLowerBound) {
  for_every_schedule(2, 17, [](const Case& c, const Schedule& schedule) {
    if (c.operation == Operation::Barrier) {
      return;
    }
    for (const std::int64_t elements : {0, 1, c.options.ranks - 1, c.options.ranks + 1, 1009}) {
      const Payload payload{elements, 4};
      for (const double alpha : {0.0, 1e-6}) {
        const CostModel costs = CostModel::uniform({alpha}, {1e-9}, {1e-10});
        const double bound = lower_bound(c.operation, c.options.ranks, payload, costs).count;
        EXPECT_GE(time_schedule(schedule, payload, costs).seconds.count, bound * (1 - 1e-12))
            << c.text() << " elements=" << elements;
      }
    }
  });
}

// Optimality: the algorithms that reach the lower bounds.
TEST(Formula, MeetsTightBounds) {
  for (Rank p = 2; p <= 33; ++p) {
    const double rounds = std::ceil(std::log2(p));
    const double r = (p - 1.0) / p;
    const auto terms = [&](Operation o, Algorithm a) { return formula(o, a, {.ranks = p}).inner; };
    for (const Operation o :
         {Operation::Allgather, Operation::ReduceScatter, Operation::Allreduce}) {
      const Terms ring = terms(o, Algorithm::Ring);
      const Terms bound = lower_bound(o, p);
      EXPECT_DOUBLE_EQ(ring.beta, bound.beta);
      EXPECT_DOUBLE_EQ(ring.gamma, bound.gamma);
      EXPECT_DOUBLE_EQ(ring.alpha / bound.alpha,
                       (o == Operation::Allreduce ? 2 : 1) * (p - 1) / rounds);
    }
    for (const Operation o : {Operation::Broadcast, Operation::Reduce}) {
      EXPECT_DOUBLE_EQ(terms(o, Algorithm::Mst).alpha, rounds);
      EXPECT_DOUBLE_EQ(terms(o, Algorithm::Mst).beta, rounds * lower_bound(o, p).beta);
      EXPECT_DOUBLE_EQ(terms(o, Algorithm::Long).beta, 2 * r);
    }
    for (const Operation o : {Operation::Scatter, Operation::Gather}) {
      EXPECT_DOUBLE_EQ(terms(o, Algorithm::Mst).alpha, rounds);
      EXPECT_DOUBLE_EQ(terms(o, Algorithm::Mst).beta, r);
    }
    EXPECT_DOUBLE_EQ(terms(Operation::Allgather, Algorithm::Bruck).alpha, rounds);
    EXPECT_DOUBLE_EQ(terms(Operation::Allgather, Algorithm::Bruck).beta, r);
    EXPECT_DOUBLE_EQ(terms(Operation::Allreduce, Algorithm::Mst).alpha, 2 * rounds);
  }
}

// Uneven blocks in lock step cost as much as the largest block.
TEST(Timing, UnevenRingIsBoundByLargestBlock) {
  for (const Rank p : {2, 3, 7, 8}) {
    for (const std::int64_t n : {1, p - 1, p + 1, 1000003}) {
      const double block = std::ceil(static_cast<double>(n) / p);
      const double gather = (p - 1) * (1e-6 + block * 1e-9);
      const double reduce = (p - 1) * (1e-6 + block * (1e-9 + 1e-10));
      const auto timed = [&](Operation o) {
        return time_schedule(build(o, Algorithm::Ring, {.ranks = p}), {n}, kCosts).seconds.count;
      };
      EXPECT_NEAR(timed(Operation::Allgather), gather, 1e-12 * gather);
      EXPECT_NEAR(timed(Operation::ReduceScatter), reduce, 1e-12 * reduce);
    }
  }
}

// At n = alpha/beta latency and bandwidth have equal weight.
TEST(Timing, MessageTakesAlphaPlusBytesTimesBeta) {
  const Schedule message = build(Operation::Broadcast, Algorithm::Mst, {.ranks = 2});
  EXPECT_DOUBLE_EQ(time_schedule(message, {1000}, kCosts).seconds.count, 2e-6);
  EXPECT_DOUBLE_EQ(time_schedule(message, {250, 4}, kCosts).seconds.count, 2e-6);
}

// A collective costs more than a message of the same size; the ring's bandwidth ratio approaches
// 2(p-1)/p.
TEST(Timing, CollectiveTakesLongerThanMessage) {
  const std::int64_t n = std::int64_t{16} << 30;
  const double message = 1e-6 + static_cast<double>(n) * 1e-9;
  const CostModel no_gamma = CostModel::uniform({1e-6}, {1e-9}, {0});
  const double ring =
      time_schedule(build(Operation::Allreduce, Algorithm::Ring, {.ranks = 16}), {n}, no_gamma)
          .seconds.count;
  EXPECT_NEAR(ring / message, 2 * 15.0 / 16, 1e-4);
}

// Reduce-scatter by ring moves less and, past n*, takes less than a reduce followed by a scatter.
TEST(Timing, RingReduceScatterBeatsReducePlusScatter) {
  const Schedule ring = build(Operation::ReduceScatter, Algorithm::Ring, {.ranks = 8});
  const Schedule tree = build(Operation::ReduceScatter, Algorithm::Mst, {.ranks = 8});
  EXPECT_LT(time_schedule(ring, {1 << 20}, kCosts).seconds,
            time_schedule(tree, {1 << 20}, kCosts).seconds);
  EXPECT_GT(time_schedule(ring, {8}, kCosts).seconds, time_schedule(tree, {8}, kCosts).seconds);
  EXPECT_LE(count_traffic(ring, {1 << 20}).bytes_total, count_traffic(tree, {1 << 20}).bytes_total);
}

// Crossing slow links once per node beats a flat ring.
TEST(Timing, TwoLevelsBeatFlatRingOverSlowLinks) {
  const CostModel costs{{{4, {1e-6}, {1e-11}}, {0, {5e-6}, {1e-9}}}, {1e-12}};
  const Payload payload{64 << 20};
  const Schedule flat = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 16});
  const Schedule two =
      build(Operation::Allreduce, Algorithm::TwoLevel, {.ranks = 16, .ranks_per_node = 4});
  EXPECT_LT(time_schedule(two, payload, costs).seconds.count,
            0.5 * time_schedule(flat, payload, costs).seconds.count);
  EXPECT_DOUBLE_EQ(costs.between(0, 3).alpha.count, 1e-6);
  EXPECT_DOUBLE_EQ(costs.between(3, 4).alpha.count, 5e-6);
}

TEST(Traffic, MessageCountsMatchDocumentation) {
  for (Rank p = 2; p <= 17; ++p) {
    EXPECT_EQ(
        count_traffic(build(Operation::Broadcast, Algorithm::Mst, {.ranks = p}), {1}).messages,
        p - 1);
    const Traffic ring =
        count_traffic(build(Operation::Allreduce, Algorithm::Ring, {.ranks = p}), {p * 10});
    EXPECT_EQ(ring.messages, 2 * p * (p - 1));
    for (const Bytes sent : ring.sent) {
      EXPECT_EQ(sent.count, 2 * (p - 1) * 10);  // 2r n
    }
    EXPECT_EQ(
        count_traffic(build(Operation::Allreduce, Algorithm::Naive, {.ranks = p}), {1}).messages,
        p * (p - 1));
  }
}

// What all ranks do alike is counted and timed at once; writing the messages out must give the same
// result.
TEST(Traffic, CompactFormMatchesIndividualMessages) {
  for_every_schedule(2, 9, [](const Case& c, const Schedule& schedule) {
    const Schedule by_hand = spelled_out(schedule);
    for (const std::int64_t elements : {std::int64_t{2520}, std::int64_t{2521}}) {
      const Traffic by_rule = count_traffic(schedule, {elements, 4});
      const Traffic by_message = count_traffic(by_hand, {elements, 4});
      EXPECT_EQ(by_rule.sent, by_message.sent) << c.text();
      EXPECT_EQ(by_rule.received, by_message.received) << c.text();
      EXPECT_EQ(by_rule.busy_senders, by_message.busy_senders) << c.text();
      EXPECT_EQ(by_rule.messages, by_message.messages) << c.text();
      EXPECT_EQ(by_rule.peak, by_message.peak) << c.text();
      EXPECT_DOUBLE_EQ(time_schedule(schedule, {elements, 4}, kCosts).seconds.count,
                       time_schedule(by_hand, {elements, 4}, kCosts).seconds.count)
          << c.text();
    }
  });
}

// In a ring every rank sends in every step.
TEST(Traffic, RingKeepsEveryRankBusy) {
  for (const Rank busy :
       count_traffic(build(Operation::Allreduce, Algorithm::Ring, {.ranks = 9}), {9})
           .busy_senders) {
    EXPECT_EQ(busy, 9);
  }
}

// Binary tree, K = 7, 15, 10: (K-1) gradients up and (K-1) models down; an inner worker forwards
// two.
TEST(Traffic, BinaryTreeSendsOneGradientUpAndOneModelDown) {
  for (const Rank k : {7, 10, 15}) {
    const Traffic up =
        count_traffic(build(Operation::Reduce, Algorithm::BinaryTree, {.ranks = k}), {100});
    const Traffic down =
        count_traffic(build(Operation::Broadcast, Algorithm::BinaryTree, {.ranks = k}), {100});
    EXPECT_EQ(up.total + down.total, 2 * (k - 1));
    EXPECT_EQ(up.received[0].count, 200);
    EXPECT_EQ(down.sent[0].count, 200);
    EXPECT_EQ(up.sent[1].count, 100);
    EXPECT_EQ(up.received[1].count, 200);
    EXPECT_EQ(down.sent[k - 1].count, 0);
    EXPECT_EQ(up.peak, 2);
    EXPECT_EQ(up.rounds, static_cast<std::int64_t>(std::log2(k)));
  }
}

}  // namespace
}  // namespace trireme
