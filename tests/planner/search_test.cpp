// The search: what it returns is what trying everything would.
#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/planner.h"

namespace trireme {
namespace {

TransformerCost cost_of(const char* model, const char* cluster, Workload work) {
  const Cluster c = cluster_preset(cluster);
  return {architecture(model), std::move(work), c, efficiency_of(c)};
}

/// Tries all of it, the plain way.
RankedLayout brute_force(const TransformerCost& cost, double memory) {
  RankedLayout best;
  best.cost.seconds = std::numeric_limits<double>::infinity();
  const int devices = cost.cluster().devices();
  for (int tensor = 1; tensor <= cost.cluster().devices_per_node; tensor *= 2) {
    for (int pipe = 1; tensor * pipe <= devices; pipe *= 2) {
      for (int microbatch = 1; microbatch <= 64; microbatch *= 2) {
        for (const RecomputeMode mode :
             {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
          for (const int zero : {0, 1, 2, 3}) {
            const int data = devices / tensor / pipe;
            const ParallelLayout layout{.data = data,
                                        .tensor = tensor,
                                        .pipe = pipe,
                                        .microbatch = microbatch,
                                        .zero = zero,
                                        .recompute = mode,
                                        .sequence = tensor > 1};
            const bool even = cost.model().model.layers % pipe == 0;
            if (!even || (pipe > 1 && zero > 2) || (layout.data == 1 && zero > 0) ||
                !misfit(layout, cost.model(), cost.workload(), cost.cluster()).empty()) {
              continue;
            }
            const StepCost step = cost.step(layout);
            if (step.memory_bytes() <= memory && step.seconds < best.cost.seconds) {
              best = {layout, step, {}};
            }
          }
        }
      }
    }
  }
  return best;
}

TEST(Search, MatchesExhaustiveSearch) {
  for (const char* model : {"llama3-8b", "llama3-70b"}) {
    for (const char* cluster : {"dgx-h100:8", "dgx-a100:16"}) {
      const TransformerCost cost = cost_of(model, cluster, {.batch = 256, .length = 4096});
      SearchOptions options;
      options.space.schedules = {PipelineForm::OneFOneB};
      options.space.context = {1};
      const PlanSearch search = search_plans(cost, options);
      const RankedLayout expected = brute_force(cost, search.memory_limit);
      ASSERT_FALSE(search.best.empty());
      EXPECT_EQ(search.best.front().layout, expected.layout)
          << mesh_text(search.best.front().layout) << " " << mesh_text(expected.layout);
      EXPECT_EQ(search.best.front().cost.seconds, expected.cost.seconds);
    }
  }
}

TEST(Search, MoreMemoryIsNeverSlower) {
  const TransformerCost cost = cost_of("llama3-70b", "dgx-h100:8", {.batch = 256});
  double last = std::numeric_limits<double>::infinity();
  for (const double memory : {40e9, 60e9, 80e9, 120e9, 200e9}) {
    const PlanSearch search = search_plans(cost, {.memory_bytes = memory});
    ASSERT_FALSE(search.best.empty()) << memory;
    EXPECT_LE(search.best.front().cost.seconds, last);
    EXPECT_LE(search.best.front().cost.memory_bytes(), memory);
    last = search.best.front().cost.seconds;
  }
}

TEST(Search, SmallModelWithLargeBatchIsDataParallel) {
  const TransformerCost cost = cost_of("gpt2-small", "dgx-h100:1", {.batch = 512});
  const PlanSearch search = search_plans(cost, {});
  EXPECT_EQ(mesh_text(search.best.front().layout), "data=8");
}

TEST(Search, GivenAxesAreKept) {
  const TransformerCost cost = cost_of("llama3-70b", "dgx-h100:8", {.batch = 256});
  SearchOptions options;
  options.space.tensor = {4};
  options.space.pipe = {4};
  for (const RankedLayout& found : search_plans(cost, options).best) {
    EXPECT_EQ(found.layout.tensor, 4);
    EXPECT_EQ(found.layout.pipe, 4);
  }
}

TEST(Search, RunnersUpAreOrderedAndExplained) {
  const TransformerCost cost = cost_of("llama3-70b", "dgx-h100:8", {.batch = 256});
  const PlanSearch search = search_plans(cost, {});
  ASSERT_GT(search.best.size(), 3U);
  EXPECT_TRUE(search.best.front().why.empty());
  for (std::size_t i = 1; i < search.best.size(); ++i) {
    EXPECT_GE(search.best[i].cost.seconds, search.best[i - 1].cost.seconds);
    EXPECT_FALSE(search.best[i].why.empty());
  }
}

TEST(Search, ReportsWhatDoesNotFit) {
  const TransformerCost cost = cost_of("llama3-405b", "dgx-h100:2", {.batch = 64});
  const PlanSearch search = search_plans(cost, {});
  EXPECT_TRUE(search.best.empty());
  ASSERT_TRUE(search.smallest);
  EXPECT_GT(search.smallest->cost.memory_bytes(), search.memory_limit);
  EXPECT_NE(search.largest_tensor.find("the embedding [128256, 16384]"), std::string::npos)
      << search.largest_tensor;
  EXPECT_NE(search.advice.find("16 nodes instead of 2"), std::string::npos) << search.advice;
}

TEST(Search, AdviceIsSufficient) {
  const PlanSearch more = search_plans(cost_of("llama3-405b", "dgx-h100:16", {.batch = 64}), {});
  EXPECT_FALSE(more.best.empty());
  const PlanSearch fewer = search_plans(cost_of("llama3-405b", "dgx-h100:8", {.batch = 64}), {});
  EXPECT_TRUE(fewer.best.empty());
}

/// What is missing is tensor parallelism, and the advice says so; taken, it works.
TEST(Search, AdvisesParallelismIfGivenAxesDoNotFit) {
  const TransformerCost cost = cost_of("llama3-70b", "dgx-h100:8", {.batch = 256});
  SearchOptions options;
  options.space.tensor = {1};
  options.space.pipe = {1};
  options.space.zero = {0};
  const PlanSearch search = search_plans(cost, options);
  EXPECT_TRUE(search.best.empty());
  EXPECT_NE(search.advice.find("on the same devices"), std::string::npos) << search.advice;
  EXPECT_TRUE(search.advice.find("tensor=") != std::string::npos ||
              search.advice.find("pipe=") != std::string::npos)
      << search.advice;
}

TEST(Search, NamesLargestActivation) {
  const TransformerCost cost =
      cost_of("llama3-8b", "dgx-h100:1", {.batch = 8, .length = std::int64_t{1} << 20});
  SearchOptions options;
  options.space.tensor = {8};
  options.space.context = {1};
  options.space.pipe = {1};
  const PlanSearch search = search_plans(cost, options);
  ASSERT_TRUE(search.best.empty());
  EXPECT_NE(search.largest_tensor.find("the largest part is activations"), std::string::npos);
  EXPECT_NE(search.largest_tensor.find("the logits [1, 1048576, 128256]"), std::string::npos)
      << search.largest_tensor;
}

TEST(Search, RejectsImpossibleSpace) {
  const TransformerCost cost = cost_of("llama3-8b", "dgx-h100:1", {.batch = 256});
  SearchOptions options;
  options.space.tensor = {3};
  EXPECT_THROW((void)search_plans(cost, options), Error);
}

TEST(Search, WideSearchTriesMillions) {
  const TransformerCost cost = cost_of("llama3-405b", "dgx-h100:2048", {.batch = 2048});
  SearchOptions options;
  options.space.extent = SearchSpace::Extent::Wide;
  SearchOptions narrow;
  narrow.space.buckets = {Bytes{512 << 20}};
  const PlanSearch usual = search_plans(cost, narrow);
  const PlanSearch wide = search_plans(cost, options);
  EXPECT_GE(wide.searched, 5'000'000);
  EXPECT_LE(wide.best.front().cost.seconds, usual.best.front().cost.seconds);
}

TEST(Search, EveryWideLayoutIsValidPlan) {
  const TransformerCost cost = cost_of("llama3-8b", "dgx-a100:2", {.batch = 64, .length = 4096});
  SearchOptions options{.keep = 1000};
  options.space.extent = SearchSpace::Extent::Wide;
  const PlanSearch search = search_plans(cost, options);
  ASSERT_GT(search.best.size(), 20U);
  for (const RankedLayout& found : search.best) {
    EXPECT_EQ(misfit(found.layout, cost.model(), cost.workload(), cost.cluster()), "");
    const Plan plan = to_plan(found, cost.workload(), 32);
    EXPECT_EQ(plan.mesh.devices(), 16);
    EXPECT_EQ(parse_plan(to_text(plan)), plan);
  }
}

/// Small buckets cost latencies, and nothing overlaps with the last of the large ones: the best is in between.
TEST(Search, BucketsHaveOptimalSize) {
  const TransformerCost cost = cost_of("llama3-8b", "dgx-h100:16", {.batch = 512, .length = 2048});
  const auto seconds = [&](std::int64_t bucket) {
    return cost
        .step({.data = 128,
               .microbatch = 4,
               .zero = 1,
               .recompute = RecomputeMode::Full,
               .bucket = {bucket}})
        .seconds;
  };
  const double small = seconds(1 << 16);
  const double middle = seconds(256 << 20);
  const double large = seconds(std::int64_t{32} << 30);
  EXPECT_LT(middle, small);
  EXPECT_LT(middle, large);
}

TEST(Search, RandomWalkFindsNearOptimum) {
  for (const char* model : {"llama3-8b", "llama3-70b"}) {
    const TransformerCost cost = cost_of(model, "dgx-h100:8", {.batch = 256});
    SearchOptions options;
    options.space.extent = SearchSpace::Extent::Wide;
    const PlanSearch all = search_plans(cost, options);
    options.method = SearchMethod::Mcmc;
    options.mcmc.moves = 20000;
    for (const std::uint64_t seed : {1, 2, 3}) {
      options.mcmc.seed = seed;
      const PlanSearch walk = search_plans(cost, options);
      ASSERT_FALSE(walk.best.empty());
      EXPECT_LT(walk.searched, all.searched);
      EXPECT_GE(walk.best.front().cost.seconds, all.best.front().cost.seconds);
      EXPECT_LE(walk.best.front().cost.seconds, 1.05 * all.best.front().cost.seconds);
      EXPECT_EQ(search_plans(cost, options).best.front().layout, walk.best.front().layout);
    }
  }
}

TEST(Search, RandomWalkStaysInSpace) {
  const TransformerCost cost = cost_of("llama3-70b", "dgx-h100:8", {.batch = 256});
  SearchOptions options{.method = SearchMethod::Mcmc, .mcmc = {.moves = 3000}};
  options.space.tensor = {4};
  options.space.zero = {1};
  for (const RankedLayout& found : search_plans(cost, options).best) {
    EXPECT_EQ(found.layout.tensor, 4);
    EXPECT_EQ(found.layout.zero, 1);
    EXPECT_EQ(misfit(found.layout, cost.model(), cost.workload(), cost.cluster()), "");
  }
}

int sum_of(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0);
}

TEST(Search, FasterDevicesGetMoreBlocks) {
  const TransformerCost cost =
      cost_of("llama3-8b", "2xdgx-a100+1xdgx-h100", {.batch = 192, .length = 4096});
  SearchOptions options;
  options.space.pipe = {3};
  const PlanSearch search = search_plans(cost, options);
  ASSERT_FALSE(search.best.empty());
  const RankedLayout& best = search.best.front();
  ASSERT_EQ(best.stage_blocks.size(), 3U);
  EXPECT_EQ(sum_of(best.stage_blocks), 32);
  EXPECT_GT(best.stage_blocks[2], 3 * best.stage_blocks[0] / 2);  // h100
  double parts = 0;
  for (const double part : best.cost.time) {
    EXPECT_GE(part, 0);
    parts += part;
  }
  EXPECT_NEAR(parts, best.cost.seconds, 1e-9);
  for (const RankedLayout& found : search.best) {
    EXPECT_DOUBLE_EQ(found.cost.peak, 16 * 312e12 + 8 * 989.4e12);
  }
  const Plan plan = to_plan(best, cost.workload(), 32);
  EXPECT_EQ(plan.stage_blocks, best.stage_blocks);
}

/// Then only the head makes stages unequal.
TEST(Search, EqualKindsAreOneKind) {
  SearchOptions options;
  options.space.pipe = {2};
  options.space.schedules = {PipelineForm::OneFOneB};
  const Workload work{.batch = 128, .length = 4096};
  const PlanSearch mixed =
      search_plans(cost_of("llama3-8b", "1xdgx-h100+1xdgx-h100", work), options);
  const PlanSearch uniform = search_plans(cost_of("llama3-8b", "dgx-h100:2", work), options);
  ASSERT_FALSE(mixed.best.empty());
  EXPECT_LE(mixed.best.front().cost.seconds, uniform.best.front().cost.seconds * (1 + 1e-9));
  EXPECT_GT(mixed.best.front().cost.seconds, 0.9 * uniform.best.front().cost.seconds);
}

TEST(StageCost, OfEqualStagesMatchesStepCost) {
  const TransformerCost cost = cost_of("llama3-8b", "dgx-h100:4", {.batch = 128, .length = 4096});
  const ParallelLayout layout{.data = 2,
                              .tensor = 4,
                              .pipe = 4,
                              .microbatch = 2,
                              .zero = 1,
                              .sequence = true,
                              .bucket = {1 << 24}};
  constexpr int kMicrobatches = 32;
  double sum = 0;
  double slowest = 0;
  double once = 0;
  double memory = 0;
  for (int stage = 0; stage < layout.pipe; ++stage) {
    const StageCost own = cost.stage(
        layout, cost.blocks(layout),
        {.blocks = 8, .first = stage == 0, .last = stage == 3, .in_flight = layout.pipe - stage});
    sum += own.seconds;
    slowest = std::max(slowest, own.seconds);
    once = std::max(once, own.once);
    memory = std::max(memory, std::accumulate(own.memory.begin(), own.memory.end(), 0.0));
  }
  const StepCost step = cost.step(layout);
  EXPECT_NEAR(sum + (kMicrobatches - 1) * slowest + once +
                  cost.message_seconds(layout, kMicrobatches) + step.part(TimePart::Other),
              step.seconds, 1e-9 * step.seconds);
  EXPECT_NEAR(memory, step.memory_bytes(), 1e-9 * memory);
}

/// Between a cluster of the slow devices alone and one of the fast ones alone.
TEST(Search, MixedClusterIsFasterThanItsWeakestKind) {
  const Workload work{.batch = 192, .length = 4096};
  const auto seconds = [&](const char* cluster) {
    return search_plans(cost_of("llama3-8b", cluster, work), {}).best.front().cost.seconds;
  };
  const double mixed = seconds("2xdgx-a100+1xdgx-h100");
  EXPECT_LT(mixed, seconds("dgx-a100:3"));
  EXPECT_GT(mixed, seconds("dgx-h100:3"));
}

/// Whether a layout waits for the weakest device or its stages differ.
TEST(Search, PartsOfMixedClusterSumToStepAndUsefulPartIsMfu) {
  const Workload work{.batch = 192, .length = 4096};
  const PlanSearch search =
      search_plans(cost_of("llama3-8b", "2xdgx-a100+1xdgx-h100", work), {.keep = 50});
  int unequal = 0;
  for (const RankedLayout& found : search.best) {
    const StepCost& cost = found.cost;
    double sum = 0;
    for (const double part : cost.time) {
      EXPECT_GE(part, -1e-9 * cost.seconds) << mesh_text(found.layout);
      sum += part;
    }
    EXPECT_NEAR(sum, cost.seconds, 1e-9 * cost.seconds);
    EXPECT_NEAR(cost.part(TimePart::Useful) / cost.seconds, cost.mfu(), 1e-12);
    unequal += found.stage_blocks.empty() ? 0 : 1;
  }
  EXPECT_GT(unequal, 0);
  EXPECT_LT(unequal, static_cast<int>(search.best.size()));
}

TEST(Bill, IsPowerAndPriceTimesTime) {
  Cluster cluster = cluster_preset("dgx-h100:2");
  cluster.device.price = Price{2.5};
  const Bill hour = bill_of(cluster, {3600});
  EXPECT_DOUBLE_EQ(hour.energy->kilowatt_hours(), 16 * 0.7);
  EXPECT_DOUBLE_EQ(*hour.dollars, 16 * 2.5);
  cluster.device.power.reset();
  EXPECT_FALSE(bill_of(cluster, {3600}).energy);
  const Bill mixed = bill_of(cluster_preset("2xdgx-a100+1xdgx-h100"), {3600});
  EXPECT_DOUBLE_EQ(mixed.energy->kilowatt_hours(), 16 * 0.4 + 8 * 0.7);
  EXPECT_FALSE(mixed.dollars);
}

TEST(Bill, TrainingBillCountsWholeSteps) {
  const TransformerCost cost = cost_of("llama3-8b", "dgx-h100", {.batch = 64, .length = 4096});
  const StepCost step{.seconds = 10};
  EXPECT_DOUBLE_EQ(training_bill(cost, step, 1e6).time.count, 40);  // 3.8 steps
}

TEST(DealBlocks, DistributesBlocksEvenly) {
  EXPECT_EQ(deal_blocks(8, 2, 2), (std::vector<int>{2, 2, 2, 2}));
  const std::vector<int> uneven = deal_blocks(126, 16, 1);  // Llama 3 405B
  EXPECT_EQ(uneven.front(), 7);
  EXPECT_EQ(uneven[1], 8);
  EXPECT_EQ(uneven.back(), 7);
  EXPECT_TRUE(deal_blocks(6, 4, 2).empty());
  for (const int chunks : {1, 2, 3, 5}) {
    const std::vector<int> dealt = deal_blocks(63, 4, chunks);
    std::vector<int> ranks(4);
    for (std::size_t stage = 0; stage < dealt.size(); ++stage) {
      ranks[stage % 4] += dealt[stage];
    }
    ++ranks.front();  // the embedding
    ++ranks.back();   // the head
    EXPECT_LE(std::ranges::max(ranks) - std::ranges::min(ranks), 1) << chunks;
  }
}

TEST(Plan, RunsLayout) {
  const ParallelLayout layout{.data = 4,
                              .tensor = 2,
                              .pipe = 2,
                              .microbatch = 2,
                              .zero = 1,
                              .recompute = RecomputeMode::Full,
                              .sequence = true};
  const Plan plan = to_plan({.layout = layout}, {.batch = 32}, 32);
  EXPECT_EQ(to_text(plan.mesh), "pipe=2,data=4,tensor=2");
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.zero, 1);
  EXPECT_TRUE(plan.sequence);
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::Full);
}

}  // namespace
}  // namespace trireme
