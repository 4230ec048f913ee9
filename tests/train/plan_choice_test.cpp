#include "trireme/plan_choice.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "predict/measured_host.h"
#include "trireme/cpu_device.h"

namespace trireme {
namespace {

std::set<std::string> meshes_of(const std::vector<Plan>& plans) {
  std::set<std::string> meshes;
  for (const Plan& plan : plans) {
    meshes.insert(to_text(plan.mesh));
  }
  return meshes;
}

TEST(CandidatePlans, CoverEveryMesh) {
  const std::vector<Plan> plans = candidate_plans(4, false, {});
  EXPECT_EQ(meshes_of(plans),
            (std::set<std::string>{"context=2,tensor=2", "context=4", "data=2,context=2",
                                   "data=2,tensor=2", "data=4", "pipe=2,context=2", "pipe=2,data=2",
                                   "pipe=2,tensor=2", "pipe=4", "tensor=4"}));
  EXPECT_TRUE(meshes_of(candidate_plans(4, true, {})).contains("data=2,expert=2"));
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.mesh.devices(), 4);
    EXPECT_EQ(problems(plan), std::vector<std::string>{});
    EXPECT_TRUE(plan.zero == 0 || plan.mesh.size("data") > 1);
    EXPECT_EQ(plan.microbatches > 1, plan.mesh.size("pipe") > 1);
  }
  EXPECT_EQ(summary_of(plans.front()), "data=4");
}

TEST(CandidatePlans, KeepFixedSettings) {
  PlanChoiceOptions options;
  options.fixed.zero = 2;
  options.fixed.microbatches = 3;
  options.fixed.sequence = true;
  options.search_zero = false;
  options.search_microbatches = false;
  for (const Plan& plan : candidate_plans(4, false, options)) {
    EXPECT_EQ(plan.zero, 2);
    EXPECT_EQ(plan.microbatches, 3);
    EXPECT_TRUE(plan.sequence);
    EXPECT_GT(plan.mesh.size("data"), 1);  // which ZeRO shards along
  }
}

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

RunOptions small_run() {
  RunOptions run;
  run.settings.model = "gpt-nano";
  run.settings.batch = 4;
  run.settings.length = 32;
  run.settings.steps = 1;
  run.make_device = cpu_devices(1);
  run.host = predict::free_communication(2);
  return run;
}

/// Every kernel takes the same time there, so that ranks that run half of the kernels win.
TEST(PlanChoice, PicksFastest) {
  const PlanChoice choice = choose_plan(small_run(), {.ranks = {2}, .budget = kEverything});
  EXPECT_EQ(summary_of(choice.best().plan), "pipe=2, 2 micro-batches");
  EXPECT_TRUE(std::ranges::is_sorted(choice.candidates, {}, &PlanCandidate::step));
  EXPECT_GT(choice.candidates.size(), 5U);
  EXPECT_EQ(choice.skipped, 0U);
  for (const PlanCandidate& candidate : choice.candidates) {
    EXPECT_TRUE(candidate.fits);
    EXPECT_GT(candidate.memory.count, 0);
  }
}

/// Four ranks on two cores: which ranks share one matters to stages that wait for one another, not to equal ranks.
TEST(PlanChoice, CountsUnfavorablePlacementsOnSharedCores) {
  RunOptions run = small_run();
  for (ComputeSetting& setting : run.host->compute->settings) {
    setting.kernels = {predict::per_call("*", 1e-4)};
  }
  const PlanChoice choice = choose_plan(run, {.ranks = {4}, .budget = kEverything});
  const std::span<const PlanCandidate> others = std::span(choice.candidates).subspan(1);
  EXPECT_TRUE(std::ranges::is_sorted(others, {}, &PlanCandidate::slowest));
  const auto margin = [&](const std::string& plan) {
    const auto found = std::ranges::find_if(
        choice.candidates, [&](const PlanCandidate& one) { return summary_of(one.plan) == plan; });
    return found == choice.candidates.end() ? -1 : found->slowest.count / found->step.count - 1;
  };
  EXPECT_NEAR(margin("data=4"), 0, 0.01);
  EXPECT_GT(margin("pipe=2,data=2, 2 micro-batches"), 0.02);
}

TEST(PlanChoice, PicksFewestExchangesAmongClosePlansOnSharedCores) {
  const PlanChoice choice = choose_plan(small_run(), {.ranks = {4}, .budget = kEverything});
  const auto fastest = std::ranges::min_element(choice.candidates, {}, &PlanCandidate::slowest);
  const double limit = fastest->slowest.count * (1 + kClosePlans);
  EXPECT_LE(choice.best().slowest.count, limit);
  for (const PlanCandidate& candidate : choice.candidates) {
    EXPECT_TRUE(candidate.slowest.count > limit || candidate.exchanges >= choice.best().exchanges)
        << summary_of(candidate.plan);
  }
  EXPECT_GT(choice.best().exchanges, 0U);
}

TEST(PlanChoice, IsReproducible) {
  const PlanChoice one = choose_plan(small_run(), {.ranks = {1, 2}, .budget = kEverything});
  const PlanChoice two = choose_plan(small_run(), {.ranks = {1, 2}, .budget = kEverything});
  ASSERT_EQ(one.candidates.size(), two.candidates.size());
  for (std::size_t i = 0; i < one.candidates.size(); ++i) {
    EXPECT_EQ(one.candidates[i].plan, two.candidates[i].plan);
    EXPECT_EQ(one.candidates[i].step, two.candidates[i].step);
  }
}

/// Sharding the optimizer's state does not help enough; sharding everything does.
TEST(PlanChoice, PicksOnlyPlansThatFit) {
  RunOptions run = small_run();
  PlanChoice all = choose_plan(run, {.ranks = {2}, .budget = kEverything});
  const auto least = std::ranges::min_element(all.candidates, {}, &PlanCandidate::memory);
  ASSERT_LT(least->memory, all.best().memory);
  run.memory_limit = least->memory;
  const PlanChoice choice = choose_plan(run, {.ranks = {2}, .budget = kEverything});
  EXPECT_LE(choice.best().memory, *run.memory_limit);
  EXPECT_FALSE(choice.candidates.back().fits);

  run.memory_limit = Bytes{1000};
  expect_error(ErrorKind::System, "no plan fits into memory",
               [&] { (void)choose_plan(run, {.ranks = {2}, .budget = kEverything}); });
}

TEST(PlanChoice, StopsWhenBudgetIsSpent) {
  const PlanChoice choice = choose_plan(small_run(), {.ranks = {2}, .budget = 0});
  EXPECT_EQ(choice.candidates.size(), 1U);
  EXPECT_GT(choice.skipped, 5U);
}

TEST(PlanChoice, RejectsUnsupportedRequests) {
  RunOptions run = small_run();
  PlanChoiceOptions options{.ranks = {2}, .search_microbatches = false, .budget = kEverything};
  options.fixed.microbatches = 64;
  expect_error(ErrorKind::Usage, "no plan suits this model and batch",
               [&] { (void)choose_plan(run, options); });
  run.host.reset();
  expect_error(ErrorKind::Usage, "run 'trireme probe'", [&] { (void)choose_plan(run, options); });
}

}  // namespace
}  // namespace trireme
