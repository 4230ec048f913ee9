// A step simulated with the program of one rank of each kind is the step of all ranks' programs, to the bit.
#include "trireme/compiled_plan.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan_cases.h"
#include "plan_models.h"
#include "trireme/model_dims.h"
#include "trireme/program_simulation.h"
#include "trireme/recompute.h"

namespace trireme {
namespace {

/// Nodes of two devices, so that groups along different axes use different links.
Cluster pairs_of_devices(int devices) {
  return {.name = "pairs",
          .nodes = (devices + 1) / 2,
          .devices_per_node = 2,
          .device = {.name = "test"},
          .links = {{.level = "node", .reach = 2, .alpha = {1e-6}, .beta = {1e-10}},
                    {.level = "network",
                     .reach = devices + devices % 2,
                     .alpha = {5e-6},
                     .beta = {1e-9}}},
          .gamma = {1e-11}};
}

/// Counts what a causal mask leaves, so that later shards of a sequence take longer.
Seconds masked_time(const Signature& /*kernel*/, const Work& work) {
  return {1e-7 + (work.products * (1 - work.causal) + work.others) * 1e-9 + work.bytes * 1e-10};
}

simulate::SimulationReport simulated_step(const CompiledPlan& compiled,
                                          const simulate::TimeVariation& variation, bool trace) {
  const Mesh& mesh = compiled.plan().mesh;
  return simulate::simulate_programs(
      compiled.rank_programs(), groups_of(mesh), pairs_of_devices(mesh.devices()),
      {.compute = masked_time, .variation = variation, .trace = trace});
}

void expect_same_step(const simulate::SimulationReport& all,
                      const simulate::SimulationReport& kinds) {
  EXPECT_EQ(kinds.step.count, all.step.count);
  EXPECT_EQ(kinds.communication.count, all.communication.count);
  ASSERT_EQ(kinds.ranks.size(), all.ranks.size());
  for (std::size_t rank = 0; rank < all.ranks.size(); ++rank) {
    EXPECT_EQ(kinds.ranks[rank].compute.count, all.ranks[rank].compute.count) << rank;
    EXPECT_EQ(kinds.ranks[rank].exposed.count, all.ranks[rank].exposed.count) << rank;
    EXPECT_EQ(kinds.ranks[rank].idle.count, all.ranks[rank].idle.count) << rank;
    EXPECT_EQ(kinds.ranks[rank].flops, all.ranks[rank].flops) << rank;
    EXPECT_EQ(kinds.ranks[rank].bytes_sent, all.ranks[rank].bytes_sent) << rank;
  }
  EXPECT_EQ(to_chrome_json(kinds.trace), to_chrome_json(all.trace));
}

/// How many programs the plan has, and how many of them were compiled.
struct Saved {
  std::size_t ranks = 0;
  std::size_t kinds = 0;
};

Saved compare_plan(const Graph& whole, const Case& c) {
  const Plan plan = plan_of(c);
  const NamedGraph graph{recompute_by(whole, plan.recompute), dim_names(whole)};
  const CompiledPlan all(graph, plan);
  const CompiledPlan kinds(graph, plan, OneOfEachKind{});
  expect_same_step(simulated_step(all, {}, true), simulated_step(kinds, {}, true));
  const simulate::TimeVariation varied{
      .jitter = simulate::Jitter::Uniform, .slow_workers = 1, .slow_factor = 2};
  expect_same_step(simulated_step(all, varied, false), simulated_step(kinds, varied, false));
  return {all.programs().size(), kinds.programs().size()};
}

void compare_all(const Graph& graph, const std::vector<Case>& plans) {
  Saved saved;
  for (const Case& c : plans) {
    SCOPED_TRACE(describe(c));
    const Saved one = compare_plan(graph, c);
    saved.ranks += one.ranks;
    saved.kinds += one.kinds;
  }
  fmt::print("{} plans: {} programs for {} ranks\n", plans.size(), saved.kinds, saved.ranks);
  EXPECT_LT(saved.kinds, saved.ranks);
}

Graph language_step(const ModelConfig& config) {
  return language_training(make_model(config, kTinyBatch));
}

TEST(RankKinds, OfLanguageModelsRunAllRanks) {
  compare_all(language_step(tiny_model_with_dropout()),
              every_nth(plans_of_language_models(), 16, 5));
}
TEST(RankKinds, OfExpertsRunAllRanks) {
  compare_all(language_step(tiny_experts()), every_nth(plans_of_experts(), 4, 1));
}
TEST(LongRankKinds, OfEveryPlanRunAllRanks) {
  compare_all(language_step(tiny_model(Family::Llama)), plans_of_language_models());
  compare_all(language_step(tiny_experts()), plans_of_experts());
  compare_all(example_training(tiny_conv_net()), plans_of_examples());
}

/// Replicas are alike: the stages are the only kinds.
TEST(RankKinds, AreStagesOfEvenPlan) {
  const Graph graph = language_step(tiny_model());
  const Plan plan = plan_of({.mesh = "data=4,pipe=2", .microbatches = 1});
  const CompiledPlan compiled({graph, dim_names(graph)}, plan, OneOfEachKind{});
  EXPECT_EQ(compiled.ranks().size(), 2U);
  const RankKinds kinds = compiled.kinds();
  ASSERT_EQ(kinds.kind_of.size(), 8U);
  EXPECT_EQ(kinds.kind_of[0], kinds.kind_of[6]);
  EXPECT_NE(kinds.kind_of[0], kinds.kind_of[1]);
}

/// With keys gathered along the context, the later of two shards has more to do under the causal mask.
TEST(RankKinds, DistinguishShardsOfCausalSequence) {
  const Graph graph = language_step(tiny_model());
  const NamedGraph named{graph, dim_names(graph)};
  const CompiledPlan sequence(named, plan_of({.mesh = "context=2,data=2"}), OneOfEachKind{});
  EXPECT_EQ(sequence.ranks().size(), 2U);
  const CompiledPlan batch(named, plan_of({.mesh = "data=4"}), OneOfEachKind{});
  EXPECT_EQ(batch.ranks().size(), 1U);
}

TEST(RankKinds, TracesShowRequestedRanks) {
  const Graph graph = language_step(tiny_model());
  const Plan plan = plan_of({.mesh = "data=4"});
  const CompiledPlan compiled({graph, dim_names(graph)}, plan, OneOfEachKind{});
  const simulate::SimulationReport report =
      simulate::simulate_programs(compiled.rank_programs(), groups_of(plan.mesh),
                                  pairs_of_devices(4), {.compute = masked_time, .traced = {2}});
  ASSERT_FALSE(report.trace.tracks.empty());
  for (const Trace::Track& track : report.trace.tracks) {
    EXPECT_EQ(track.process, "rank 2");
  }
  EXPECT_FALSE(report.trace.spans.empty());
}

}  // namespace
}  // namespace trireme
