// The search: what it returns is what trying everything would.
#include <limits>

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
            const ParallelLayout layout{.data = devices / tensor / pipe,
                                        .tensor = tensor,
                                        .pipe = pipe,
                                        .microbatch = microbatch,
                                        .zero = zero,
                                        .recompute = mode,
                                        .sequence = tensor > 1};
            const bool even = cost.model().model.layers % pipe == 0;
            if (!even || (pipe > 1 && zero > 1) || (layout.data == 1 && zero > 0) ||
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

TEST(Search, FindsWhatTryingEverythingFinds) {
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

TEST(Search, SmallModelWithALargeBatchIsDataParallel) {
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

TEST(Search, SaysWhatDoesNotFit) {
  const TransformerCost cost = cost_of("llama3-405b", "dgx-h100:2", {.batch = 64});
  const PlanSearch search = search_plans(cost, {});
  EXPECT_TRUE(search.best.empty());
  ASSERT_TRUE(search.smallest);
  EXPECT_GT(search.smallest->cost.memory_bytes(), search.memory_limit);
  EXPECT_NE(search.advice.find("devices"), std::string::npos);
}

TEST(Search, ImpossibleSpaceIsRefused) {
  const TransformerCost cost = cost_of("llama3-8b", "dgx-h100:1", {.batch = 256});
  SearchOptions options;
  options.space.tensor = {3};
  EXPECT_THROW((void)search_plans(cost, options), Error);
}

TEST(Search, WideSearchTriesMillionsInSeconds) {
  const TransformerCost cost = cost_of("llama3-405b", "dgx-h100:2048", {.batch = 2048});
  SearchOptions options;
  options.space.extent = SearchSpace::Extent::Wide;
  const PlanSearch usual = search_plans(cost, {});
  const PlanSearch wide = search_plans(cost, options);
  EXPECT_GT(wide.searched, 10 * usual.searched);
  EXPECT_LE(wide.best.front().cost.seconds, usual.best.front().cost.seconds);
}

TEST(Plan, RunsTheLayout) {
  const ParallelLayout layout{.data = 4,
                              .tensor = 2,
                              .pipe = 2,
                              .microbatch = 2,
                              .zero = 1,
                              .recompute = RecomputeMode::Full,
                              .sequence = true};
  const Plan plan = to_plan(layout, {.batch = 32});
  EXPECT_EQ(to_text(plan.mesh), "pipe=2,data=4,tensor=2");
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.zero, 1);
  EXPECT_TRUE(plan.sequence);
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::Full);
}

}  // namespace
}  // namespace trireme
