// Op-level plans of real graphs: the known ways to parallelize are found, the choice is the best of all, and the plan trains
// as one device does.
#include "trireme/op_planning.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "partition/on_ranks.h"
#include "partition/two_layers.h"
#include "partition/two_products.h"
#include "planner/random_problem.h"
#include "trireme/error.h"
#include "trireme/model_kinds.h"
#include "trireme/training.h"

namespace trireme {
namespace {

Graph mlp_step(std::int64_t inputs, std::int64_t width, std::int64_t examples) {
  const MlpConfig config{.inputs = inputs, .hidden = {width}, .outputs = inputs};
  return make_training_graph(make_model(config, examples).graph);
}

OpPlan planned(const Graph& step, const Mesh& mesh) {
  return plan_ops(step, cluster_preset("dgx-a100"), {.mesh = mesh}).value();
}

std::string placement_of(const Plan& plan, const std::string& value) {
  const auto row = std::ranges::find(plan.values, value, &ValueAssignment::selector);
  return row == plan.values.end() ? "derived" : to_text(row->axes.front());
}

TEST(OpPlanning, SplitsWideMlpByColumnsThenRows) {
  const Plan plan = planned(mlp_step(4096, 16384, 8), Mesh({{"tensor", 4}})).plan;
  EXPECT_EQ(placement_of(plan, "layers.0.weight"), "sharded(1)");
  EXPECT_EQ(placement_of(plan, "layers.1.weight"), "sharded(0)");
  EXPECT_EQ(placement_of(plan, "layers.0.relu"), "sharded(1)");
}

TEST(OpPlanning, ShardsLargeBatchOfSmallModel) {
  const Plan plan = planned(mlp_step(64, 128, 1 << 18), Mesh({{"data", 4}})).plan;
  for (const char* weight : {"layers.0.weight", "layers.1.weight"}) {
    EXPECT_EQ(placement_of(plan, weight), "replicated");
  }
  for (const char* activation : {"x", "targets", "layers.0.relu"}) {
    EXPECT_EQ(placement_of(plan, activation), "sharded(0)");
  }
}

TEST(OpPlanning, MatchesExhaustiveSearch) {
  for (const char* between : {"", "relu"}) {
    const Graph graph = two_products(between, {DType::F32, {8, 6}});
    for (const char* cluster : {"dgx-a100", "figure-4x4"}) {
      Cluster slow = cluster_preset(cluster);
      slow.device = device_preset("a100");
      const OpProblem ops = make_op_problem(graph, slow, {.mesh = Mesh({{"tensor", 2}})});
      const StrategyChoice choice = choose_strategies(ops.problem);
      EXPECT_NEAR(choice.cost, brute_force(ops.problem, 1e18), 1e-15);
      const double memory = 0.7 * choice.memory;
      const std::optional<StrategyChoice> within = choose_strategies(ops.problem, memory);
      ASSERT_TRUE(within);
      EXPECT_NEAR(within->cost, brute_force(ops.problem, memory), 1e-15);
    }
  }
}

/// As one device, whatever was chosen.
void expect_equal_training(const Plan& plan) {
  const TwoLayers task = two_layers();
  const Trained one = train_alone(task.graph, task.first, task.batches);
  const Trained many = train_on_ranks(task.graph, plan, {}, task.first, task.batches);
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], many.losses[i], kTolerance) << "step " << i;
  }
  for (const auto& [name, numbers] : one.kept) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_NEAR(numbers[i], many.kept.at(name).at(i), kTolerance) << name << " at " << i;
    }
  }
}

TEST(OpPlanning, PlansTrainLikeOneDevice) {
  Cluster cluster = cluster_preset("dgx-a100");
  cluster.device.peaks = {{.dtype = "f64", .dense = FlopRate{1e3}}};  // so slow that it shards
  for (const Mesh& mesh : {Mesh({{"tensor", 2}}), Mesh({{"data", 2}, {"tensor", 2}})}) {
    const std::optional<OpPlan> found = plan_ops(two_layers().graph, cluster, {.mesh = mesh});
    ASSERT_TRUE(found);
    EXPECT_LT(found->choice.cost, 0.9 * found->replicated_seconds);
    expect_equal_training(parse_plan(to_text(found->plan)));
  }
}

TEST(OpPlanning, RejectsPipelineAndTooManyDevices) {
  const Graph step = mlp_step(8, 16, 4);
  EXPECT_THROW((void)planned(step, Mesh({{"pipe", 2}})), Error);
  EXPECT_THROW((void)planned(step, Mesh({{"tensor", 16}})), Error);
}

}  // namespace
}  // namespace trireme
