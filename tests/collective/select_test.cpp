#include <algorithm>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "collective/test_costs.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// The choice is the argmin of the formulas, on a dense grid, for every operation.
TEST(Selector, MatchesExhaustiveMinimum) {
  std::vector<Bytes> grid;
  for (int i = 0; i < 16; ++i) {
    grid.push_back({static_cast<std::int64_t>(std::pow(3.7, i))});
  }
  for (const double alpha : {1e-7, 1e-5}) {
    const CostModel costs = CostModel::uniform({alpha}, {1e-9}, {1e-10});
    Selector selector(costs);
    for (const Operation operation : all_operations()) {
      for (Rank p = 1; p <= 40; ++p) {
        for (const Bytes bytes : grid) {
          const auto& ranking = selector.rank({.operation = operation, .ranks = p, .bytes = bytes});
          double best = INFINITY;
          for (const Algorithm algorithm : algorithms_for(operation)) {
            if (!properties(algorithm).two_level && properties(algorithm).bit_identical) {
              const std::int64_t k = best_segments(operation, algorithm, p, bytes, costs);
              best = std::min(best, formula(operation, algorithm, {.ranks = p, .segments = k})
                                        .at(static_cast<double>(bytes.count), costs)
                                        .count);
            }
          }
          ASSERT_EQ(ranking.front().predicted.count, best)
              << to_text(operation) << " p=" << p << " n=" << bytes.count;
          const auto is_alike = [](const Choice& c) {
            return properties(c.algorithm).bit_identical;
          };
          const auto last = std::ranges::partition_point(ranking, is_alike);
          ASSERT_TRUE(std::is_sorted(ranking.begin(), last, [](const Choice& a, const Choice& b) {
            return a.predicted < b.predicted;
          }));
          ASSERT_TRUE(std::none_of(last, ranking.end(), is_alike));
        }
      }
    }
  }
}

// Short versus long flips between the byte below n* and the byte above.
TEST(Selector, SwitchesAtCrossover) {
  for (const Operation operation : {Operation::Allreduce, Operation::Broadcast, Operation::Reduce,
                                    Operation::Allgather, Operation::ReduceScatter}) {
    const bool rooted = has_root(operation);
    const Algorithm longer = rooted ? Algorithm::Long : Algorithm::Ring;
    for (const Rank p : {8, 16, 256}) {
      const double n_star = crossover(formula(operation, Algorithm::Mst, {.ranks = p}).inner,
                                      formula(operation, longer, {.ranks = p}).inner, kCosts)
                                .value();
      Selector selector(kCosts);
      const auto best = [&](double bytes) {
        return selector
            .rank({.operation = operation,
                   .ranks = p,
                   .bytes = {static_cast<std::int64_t>(bytes)},
                   .among = {Algorithm::Mst, longer}})
            .front()
            .algorithm;
      };
      EXPECT_EQ(best(std::round(n_star) - 1), Algorithm::Mst) << to_text(operation) << p;
      EXPECT_EQ(best(std::round(n_star) + 1), longer) << to_text(operation) << p;
    }
  }
}

// The number of segments is the best integer.
TEST(Selector, PicksBestSegmentCount) {
  for (const Algorithm algorithm : {Algorithm::Chain, Algorithm::DoubleTree}) {
    for (const Operation operation :
         {Operation::Broadcast, Operation::Reduce, Operation::Allreduce}) {
      for (const Rank p : {2, 3, 8, 31}) {
        for (const std::int64_t n : {1, 100, 10000, 1000000, 100000000}) {
          const auto cost = [&](std::int64_t k) {
            return formula(operation, algorithm, {.ranks = p, .segments = k})
                .at(static_cast<double>(n), kCosts)
                .count;
          };
          const std::int64_t chosen = best_segments(operation, algorithm, p, {n}, kCosts);
          for (const std::int64_t k : {chosen - 1, chosen + 1, chosen / 2, chosen * 2}) {
            if (k >= 1 && k <= n) {
              EXPECT_LE(cost(chosen), cost(k) * (1 + 1e-12))
                  << to_text(algorithm) << p << " n=" << n << " k=" << k;
            }
          }
        }
      }
    }
  }
}

// For huge vectors a pipelined chain beats scatter + all-gather.
TEST(Selector, PrefersPipelineForHugeBroadcasts) {
  const auto cost = [&](Algorithm a) {
    const std::int64_t k = best_segments(Operation::Broadcast, a, 16, {1 << 30}, kCosts);
    return formula(Operation::Broadcast, a, {.ranks = 16, .segments = k}).at(1 << 30, kCosts).count;
  };
  EXPECT_LT(cost(Algorithm::Chain), cost(Algorithm::Long));
  EXPECT_LT(cost(Algorithm::DoubleTree), cost(Algorithm::Long));
}

/// Every prediction of the ranking equals the time of its schedule.
void expect_predictions_are_timed(Selector& selector, const Selector::Query& query) {
  for (const Choice& choice : selector.rank(query)) {
    const Schedule schedule = build(query.operation, choice.algorithm, choice.options);
    const double timed =
        time_schedule(schedule, {query.bytes.count}, selector.costs()).seconds.count;
    EXPECT_NEAR(choice.predicted.count, timed, 1e-9 * timed) << to_text(choice.algorithm);
  }
}

// On nodes with fast links inside and slow ones between, two-level wins large all-reduces.
TEST(Selector, ChoosesTwoLevelsOnCluster) {
  Selector selector({{{8, {1e-6}, {2e-12}}, {0, {5e-6}, {4e-11}}}, {1e-12}});
  const Selector::Query query{.operation = Operation::Allreduce, .ranks = 32, .bytes = {256 << 20}};
  EXPECT_EQ(selector.rank(query).front().algorithm, Algorithm::TwoLevel);
  EXPECT_EQ(selector.rank(query).front().options.ranks_per_node, 8);
  expect_predictions_are_timed(selector, query);
}

// An all-reduce must leave the same bits everywhere, so naive and whole-ring are never chosen, even
// where they are fast (whole-ring: p = 3, small vectors).
TEST(Selector, NeverChoosesAlgorithmsThatLeaveRanksWithDifferentBits) {
  Selector selector(kCosts);
  const auto& ranking =
      selector.rank({.operation = Operation::Allreduce, .ranks = 3, .bytes = {1000}});
  EXPECT_TRUE(properties(ranking.front().algorithm).bit_identical);
  EXPECT_EQ(ranking.size(), algorithms_for(Operation::Allreduce).size() - 1);  // all but two-level
}

TEST(Selector, ChoosesTwoLevelsOnThreeLinkLevels) {
  Selector selector({{{4, {1e-6}, {1e-11}}, {8, {5e-6}, {1e-10}}, {0, {1e-5}, {2e-10}}}, {1e-11}});
  const Selector::Query query{.operation = Operation::Allreduce, .ranks = 16, .bytes = {256 << 20}};
  EXPECT_EQ(selector.rank(query).front().algorithm, Algorithm::TwoLevel);
  expect_predictions_are_timed(selector, query);
}

TEST(Selector, ExplainsChoice) {
  Selector selector(kCosts);
  const std::string why =
      selector.explain({.operation = Operation::Allgather, .ranks = 8, .bytes = {1 << 20}});
  EXPECT_NE(why.find("is predicted fastest: "), std::string::npos) << why;
  EXPECT_NE(why.find("bandwidth dominates"), std::string::npos) << why;
  EXPECT_NE(why.find("next is"), std::string::npos) << why;
}

TEST(Selector, RejectsInvalidLevels) {
  EXPECT_THROW(Selector({{}, {0}}), Error);
  EXPECT_THROW(Selector({{{0, {1e-6}, {1e-9}}, {0, {1e-6}, {1e-9}}}, {0}}), Error);
  EXPECT_THROW(Selector({{{4, {1e-6}, {1e-9}}}, {0}}), Error);
}

TEST(Selector, IsThreadSafe) {
  Selector selector(kCosts);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t n = 1; n < 200; ++n) {
        EXPECT_FALSE(
            selector.rank({.operation = Operation::Allreduce, .ranks = 8, .bytes = {n}}).empty());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(AlgorithmProperties, MatchCatalog) {
  using enum Algorithm;
  const auto with = [](bool AlgorithmProperties::*property) {
    std::vector<Algorithm> all;
    for (const Algorithm algorithm : all_algorithms()) {
      if (properties(algorithm).*property) {
        all.push_back(algorithm);
      }
    }
    return all;
  };
  EXPECT_EQ(with(&AlgorithmProperties::segmented), (std::vector{Chain, DoubleTree}));
  EXPECT_EQ(with(&AlgorithmProperties::two_level), std::vector{TwoLevel});
  const std::vector<Algorithm> identical = with(&AlgorithmProperties::bit_identical);
  EXPECT_EQ(identical.size(), all_algorithms().size() - 2);
  EXPECT_EQ(std::ranges::count(identical, Naive), 0);
  EXPECT_EQ(std::ranges::count(identical, WholeRing), 0);
}

}  // namespace
}  // namespace trireme
