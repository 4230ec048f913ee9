// Exact choices, against trying everything.
#include "trireme/placement_search.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "random_problem.h"
#include "trireme/error.h"

namespace trireme {
namespace {

TEST(Strategies, MatchExhaustiveSearch) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    const StrategyProblem problem = random_problem(random, 2 + round % 7, 2 + round % 3, 0.4);
    const StrategyChoice choice = choose_strategies(problem);
    EXPECT_NEAR(choice.cost, brute_force(problem, 1e9), 1e-9);
    EXPECT_EQ(choice.cost, choice.bound);
  }
}

TEST(Strategies, WithinMemoryMatchExhaustiveSearch) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 60; ++round) {
    const StrategyProblem problem = random_problem(random, 6, 4, 0.3);
    const double memory = 8 + round / 3.0;
    const double best = brute_force(problem, memory);
    const std::optional<StrategyChoice> choice = choose_strategies(problem, memory);
    ASSERT_EQ(choice.has_value(), best < 1e9);
    if (choice) {
      EXPECT_LE(choice->memory, memory);
      EXPECT_NEAR(choice->cost, best, 1e-9);
      EXPECT_EQ(choice->bound, choice->cost);
    }
  }
}

StrategyProblem long_chain() {
  std::mt19937_64 random(7);
  StrategyProblem problem = random_problem(random, 384, 8, 0);
  for (int i = 2; i < 384; i += 3) {  // residual connections
    StrategyProblem::Edge edge{.from = i - 2, .to = i, .cost = std::vector<double>(64, 1.0)};
    for (int s = 0; s < 8; ++s) {
      edge.cost[9 * static_cast<std::size_t>(s)] = 0;
    }
    problem.edges.push_back(edge);
  }
  return problem;
}

TEST(Strategies, SolveLongChain) {
  const StrategyProblem problem = long_chain();
  const StrategyChoice choice = choose_strategies(problem);
  EXPECT_EQ(choice.strategies.size(), 384U);
  // No single change improves it.
  for (std::size_t i = 0; i < 384; i += 37) {
    for (int s = 0; s < 8; ++s) {
      std::vector<int> other = choice.strategies;
      other[i] = s;
      EXPECT_GE(evaluate(problem, other).cost, choice.cost - 1e-9);
    }
  }
}

TEST(Strategies, LongChainWithinMemoryIsCloseToBound) {
  const StrategyProblem problem = long_chain();
  const StrategyChoice free = choose_strategies(problem);
  const std::optional<StrategyChoice> choice = choose_strategies(problem, 0.7 * free.memory);
  ASSERT_TRUE(choice);
  EXPECT_LE(choice->memory, 0.7 * free.memory);
  EXPECT_GT(choice->cost, free.cost);
  EXPECT_LE(choice->bound, choice->cost);
  EXPECT_LT(choice->cost / choice->bound, 1.001);
}

/// Two matrix products with an activation between: replicated, split by column or split by row. The result must be
/// whole. The cheapest is Megatron's: by column, then by row, one all-reduce.
TEST(Strategies, FindMegatronSplitOfMlp) {
  constexpr double kProduct = 10;
  constexpr double kReduce = 3;
  constexpr double kGather = 2;
  enum Strategy : int { Replicated, Column, Row };
  // Column needs its input whole and leaves the output sharded; Row needs it sharded and reduces its output.
  StrategyProblem problem;
  problem.nodes = {
      {.cost = {kProduct, kProduct / 2, kProduct / 2 + kReduce}, .memory = {}},
      {.cost = {kProduct, kProduct / 2 + kGather, kProduct / 2 + kReduce}, .memory = {}}};
  problem.edges = {{.from = 0,
                    .to = 1,
                    .cost = {0, 0, 0,              // whole to anything: slicing is free
                             kGather, kGather, 0,  // sharded by column: Row takes it as it is
                             0, 0, 0}}};           // reduced: whole
  const StrategyChoice choice = choose_strategies(problem);
  EXPECT_EQ(choice.strategies, (std::vector<int>{Column, Row}));
  EXPECT_DOUBLE_EQ(choice.cost, kProduct + kReduce);
}

TEST(Strategies, RejectBadProblems) {
  StrategyProblem problem;
  problem.nodes = {{.cost = {1, 2}, .memory = {}}, {.cost = {1}, .memory = {}}};
  problem.edges = {{.from = 0, .to = 1, .cost = {1}}};
  EXPECT_THROW((void)choose_strategies(problem), Error);
}

TEST(CutStages, MatchesTextbookExampleWithFourStages) {
  const std::vector<double> seconds{1, 2, 3, 2};
  const std::optional<StageSplit> split = split_into_stages(
      {.layers = 4, .devices = 4, .microbatches = 4, .sizes = {1}},
      [&](int first, int last, int) -> std::optional<double> {
        return last == first + 1 ? std::optional(seconds[static_cast<std::size_t>(first)])
                                 : std::nullopt;
      });
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stages.size(), 4U);
  EXPECT_DOUBLE_EQ(split->seconds, 17);
}

/// All splits, recursively.
double best_split(const SplitOptions& o, const StageSeconds& seconds, int first, int used,
                  double sum, double slowest) {
  if (first == o.layers) {
    return used == o.devices ? sum + (o.microbatches - 1) * slowest
                             : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (int last = first + 1; last <= o.layers; ++last) {
    for (int size = 1; used + size <= o.devices; size *= 2) {
      if (const std::optional<double> t = seconds(first, last, size)) {
        best = std::min(best,
                        best_split(o, seconds, last, used + size, sum + *t, std::max(slowest, *t)));
      }
    }
  }
  return best;
}

TEST(CutStages, MatchesExhaustiveSearch) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> cost(0.5, 3);
  for (int round = 0; round < 40; ++round) {
    std::vector<double> layers(static_cast<std::size_t>(2 + round % 6));
    for (double& layer : layers) {
      layer = cost(random);
    }
    const double overhead = cost(random) / 10;
    const StageSeconds seconds = [&](int first, int last, int devices) -> std::optional<double> {
      double sum = 0;
      for (int i = first; i < last; ++i) {
        sum += layers[static_cast<std::size_t>(i)];
      }
      return sum > 8 * devices ? std::nullopt
                               : std::optional(sum / devices + overhead * (devices - 1));
    };
    const SplitOptions options{.layers = static_cast<int>(layers.size()),
                               .devices = 1 + round % 8,
                               .microbatches = 1 + round % 5};
    const double expected = best_split(options, seconds, 0, 0, 0, 0);
    const std::optional<StageSplit> split = split_into_stages(options, seconds);
    ASSERT_EQ(split.has_value(), expected < 1e9);
    if (split) {
      EXPECT_NEAR(split->seconds, expected, 1e-9);
    }
  }
}

/// All ways to give blocks to stages, recursively.
double best_deal(const DealOptions& o, const BlockSeconds& seconds, int stage, int left, double sum,
                 double slowest) {
  if (stage == o.stages) {
    return left == 0 ? sum + (o.microbatches - 1) * slowest
                     : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (int blocks = 1; blocks <= left; ++blocks) {
    if (const std::optional<double> t = seconds(stage, blocks)) {
      best = std::min(
          best, best_deal(o, seconds, stage + 1, left - blocks, sum + *t, std::max(slowest, *t)));
    }
  }
  return best;
}

TEST(UnequalStages, MatchExhaustiveSearch) {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> cost(0.5, 3);
  int impossible = 0;
  for (int round = 0; round < 60; ++round) {
    const DealOptions options{
        .blocks = 4 + round % 6, .stages = 1 + round % 5, .microbatches = 1 + round % 7};
    std::vector<double> speed(static_cast<std::size_t>(options.stages));
    for (double& each : speed) {
      each = cost(random);
    }
    const BlockSeconds seconds = [&](int stage, int blocks) -> std::optional<double> {
      const double own = speed[static_cast<std::size_t>(stage)];
      return blocks > 4 * own ? std::nullopt : std::optional(0.1 * stage + blocks / own);
    };
    const double expected = best_deal(options, seconds, 0, options.blocks, 0, 0);
    const std::optional<StageSplit> split = deal_to_unequal_stages(options, seconds);
    ASSERT_EQ(split.has_value(), expected < 1e9) << round;
    if (split) {
      EXPECT_NEAR(split->seconds, expected, 1e-9) << round;
    }
    impossible += split ? 0 : 1;
  }
  EXPECT_GT(impossible, 0);
  EXPECT_LT(impossible, 30);
}

TEST(UnequalStages, GetBlocksInProportion) {
  // Two stages, the second three times as fast.
  const std::optional<StageSplit> split =
      deal_to_unequal_stages({.blocks = 32, .stages = 2, .microbatches = 64},
                             [](int stage, int blocks) -> std::optional<double> {
                               return stage == 0 ? 3.0 * blocks : 1.0 * blocks;
                             });
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stages[0].last, 8);
}

TEST(Pipedream, BalancesChain) {
  const std::vector<LayerProfile> layers(
      6, {.compute = 1, .activation_bytes = 0, .parameter_bytes = 1e10});
  const ReplicatedStages found =
      partition_pipedream(layers, 3, 1e9);  // parameters are too large to reduce
  EXPECT_EQ(found.stages.size(), 3U);
  EXPECT_DOUBLE_EQ(found.seconds, 2);
  EXPECT_EQ(found.in_flight, 3);
}

TEST(Pipedream, ReplicatesStagesWithFewParameters) {
  // As VGG: convolutions that compute much and have few parameters, then a layer that has many.
  std::vector<LayerProfile> layers(3, {.compute = 1, .activation_bytes = 1, .parameter_bytes = 1});
  layers.push_back({.compute = 1, .activation_bytes = 1, .parameter_bytes = 1e12});
  const ReplicatedStages found = partition_pipedream(layers, 4, 1e9);
  ASSERT_EQ(found.stages.size(), 2U);
  EXPECT_EQ(found.stages[0].devices, 3);
  EXPECT_EQ(found.stages[1].devices, 1);
  EXPECT_DOUBLE_EQ(found.seconds, 1);
  EXPECT_EQ(found.in_flight, 2);
}

TEST(Pipedream, IsDataParallelIfReducingIsFree) {
  const std::vector<LayerProfile> layers(
      5, {.compute = 1, .activation_bytes = 1e9, .parameter_bytes = 1});
  const ReplicatedStages found = partition_pipedream(layers, 4, 1e9);
  ASSERT_EQ(found.stages.size(), 1U);
  EXPECT_EQ(found.stages[0].devices, 4);
  EXPECT_EQ(found.in_flight, 1);
}

}  // namespace
}  // namespace trireme
