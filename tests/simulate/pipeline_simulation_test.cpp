#include "trireme/pipeline_simulation.h"

#include <chrono>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/collective_cost.h"

namespace trireme::simulate {
namespace {

Cluster pipeline_cluster(int devices, double alpha = 1e-6, double beta = 1e-9) {
  return {.name = "flat",
          .nodes = devices,
          .devices_per_node = 1,
          .device = {.name = "test"},
          .links = {{.level = "network", .reach = devices, .alpha = {alpha}, .beta = {beta}}},
          .gamma = {0}};
}

double gradient_reduction(int ranks, double bytes) {
  return formula(Operation::Allreduce, Algorithm::Ring, {.ranks = ranks})
      .at(bytes, CostModel::uniform({1e-6}, {1e-9}, {0}))
      .count;
}

std::vector<StageWork> equal_stages(int count, const StageWork& work) {
  return std::vector<StageWork>(static_cast<std::size_t>(count), work);
}

const StageWork kWork{.forward = {1e-3},
                      .backward_input = {1.25e-3},
                      .backward_weight = {0.75e-3},
                      .update = {0.1e-3}};

Mesh pipe_only(int ranks) {
  return Mesh({{"pipe", ranks}});
}

TEST(PipelineSimulation, MatchesTableTiming) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    for (const PipelineOptions& size : {PipelineOptions{.ranks = 2, .microbatches = 2},
                                        PipelineOptions{.ranks = 4, .microbatches = 8},
                                        PipelineOptions{.ranks = 8, .microbatches = 24}}) {
      if (!problems(schedule, size).empty()) {
        continue;
      }
      const PipelineTable table = schedule.make(size);
      StageWork work = kWork;
      // Between copies, gradients are reduced; time_pipeline() counts a message.
      work.message = {table.copies > 1 ? 0 : 20000};
      const Cluster cluster =
          table.copies > 1 ? pipeline_cluster(table.ranks, 0, 0) : pipeline_cluster(table.ranks);
      const SimulationReport report = simulate_pipeline(table, equal_stages(table.stages, work),
                                                        cluster, {.mesh = pipe_only(table.ranks)});
      const PipelineTiming timing =
          time_pipeline(table, PipelineDurations{.forward = 1e-3,
                                                 .backward_input = 1.25e-3,
                                                 .backward_weight = 0.75e-3,
                                                 .update = 0.1e-3,
                                                 .message = table.copies > 1 ? 0 : 21e-6});
      EXPECT_NEAR(report.step.count, timing.makespan, 1e-9 * timing.makespan)
          << schedule.name << " " << size.ranks;
    }
  }
}

TEST(PipelineSimulation, ReducesGradientsAlongData) {
  const PipelineTable table = make_pipeline("1f1b", {.ranks = 1, .microbatches = 3});
  StageWork work = kWork;
  work.gradients = {{.bytes = {1 << 20}, .axis = "data"}};
  for (const int data : {1, 2, 8, 12}) {
    const SimulationReport report =
        simulate_pipeline(table, equal_stages(1, work), pipeline_cluster(data),
                          {.mesh = Mesh({{"data", data}}), .among = {Algorithm::Ring}});
    const double reduce = data == 1 ? 0 : gradient_reduction(data, 1 << 20);
    EXPECT_NEAR(report.step.count, 9e-3 + reduce + 0.1e-3, 1e-12);
    EXPECT_NEAR(report.ranks[0].exposed.count, reduce, 1e-12);
    EXPECT_NEAR(report.ranks[0].bytes_sent, 2.0 * (1 << 20) * (data - 1) / data, 1e-6);
  }
}

/// All buckets but the last are reduced while the backward continues.
TEST(PipelineSimulation, BucketsOverlapWithLastBackward) {
  const PipelineTable table = make_pipeline("1f1b", {.ranks = 1, .microbatches = 1});
  StageWork work = kWork;
  work.gradients = {{.bytes = {400'000}, .axis = "data"}};
  work.gradient_buckets = 4;
  const SimulationReport report =
      simulate_pipeline(table, equal_stages(1, work), pipeline_cluster(4),
                        {.mesh = Mesh({{"data", 4}}), .among = {Algorithm::Ring}});
  ASSERT_LT(gradient_reduction(4, 100'000), 2e-3 / 4);
  EXPECT_NEAR(report.step.count, 3e-3 + gradient_reduction(4, 100'000) + 0.1e-3, 1e-12);
}

TEST(PipelineSimulation, CountsCollectivesInsideTasks) {
  const PipelineTable table = make_pipeline("gpipe", {.ranks = 2, .microbatches = 4});
  StageWork work = kWork;
  work.in_forward = {{.bytes = {1 << 16}, .count = 2}};
  work.in_backward_input = {{.bytes = {1 << 16}, .count = 2}};
  const SimulationReport report =
      simulate_pipeline(table, equal_stages(2, work), pipeline_cluster(8),
                        {.mesh = Mesh({{"pipe", 2}, {"tensor", 4}}), .among = {Algorithm::Ring}});
  const double each = 2 * gradient_reduction(4, 1 << 16);
  const PipelineTiming timing =
      time_pipeline(table, PipelineDurations{.forward = 1e-3 + each,
                                             .backward_input = 1.25e-3 + each,
                                             .backward_weight = 0.75e-3,
                                             .update = 0.1e-3,
                                             .message = 1e-6});
  EXPECT_NEAR(report.step.count, timing.makespan, 1e-12);
  EXPECT_EQ(report.ranks.size(), 8U);
}

TEST(PipelineSimulation, OneSlowRankSlowsItsTensorGroupAndAllReplicas) {
  const PipelineTable table = make_pipeline("1f1b", {.ranks = 1, .microbatches = 2});
  StageWork work = kWork;
  work.gradients = {{.bytes = {1000}, .axis = "data"}};
  const PipelineSimulationOptions options{.mesh = Mesh({{"data", 4}, {"tensor", 2}}),
                                          .variation = {.slow_workers = 1},
                                          .among = {Algorithm::Ring}};
  const SimulationReport report =
      simulate_pipeline(table, equal_stages(1, work), pipeline_cluster(8), options);
  EXPECT_NEAR(report.step.count, 12e-3 + gradient_reduction(4, 1000) + 0.2e-3, 1e-12);
  EXPECT_NEAR(report.ranks[7].compute.count, 12.2e-3, 1e-12);
  EXPECT_NEAR(report.ranks[6].compute.count, 6.1e-3, 1e-12);
}

TEST(PipelineSimulation, TimesOfRankSumToStepAndTraceIsValid) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "chimera", "pipedream"}) {
    const PipelineTable table = make_pipeline(schedule, {.ranks = 4, .microbatches = 8});
    StageWork work = kWork;
    work.gradients = {{.bytes = {1 << 20}, .axis = "data"}};
    work.in_forward = {{.bytes = {1 << 16}}};
    work.message = {1 << 16};
    const SimulationReport report =
        simulate_pipeline(table, equal_stages(table.stages, work), pipeline_cluster(16),
                          {.mesh = Mesh({{"pipe", 4}, {"data", 2}, {"tensor", 2}}),
                           .variation = {.jitter = Jitter::Uniform},
                           .trace = true});
    EXPECT_EQ(problems(report.trace), std::vector<std::string>{}) << schedule;
    for (const RankReport& rank : report.ranks) {
      EXPECT_NEAR(rank.compute.count + rank.exposed.count + rank.idle.count, report.step.count,
                  1e-9)
          << schedule;
    }
  }
}

/// 8 stages, 16 replicas and 8 tensor ranks on 128 nodes; and a table of 1000 ranks.
TEST(PipelineSimulation, HandlesThousandRanks) {
  const auto begin = std::chrono::steady_clock::now();
  const PipelineTable table = make_pipeline("1f1b", {.ranks = 8, .microbatches = 64});
  StageWork work = kWork;
  work.gradients = {{.bytes = {1 << 28}, .axis = "data"}};
  work.in_forward = {{.bytes = {1 << 24}, .count = 8}};
  work.in_backward_input = {{.bytes = {1 << 24}, .count = 8}};
  work.message = {1 << 22};
  const SimulationReport report =
      simulate_pipeline(table, equal_stages(8, work), cluster_preset("128xdgx-h100"),
                        {.mesh = Mesh({{"pipe", 8}, {"data", 16}, {"tensor", 8}}),
                         .variation = {.jitter = Jitter::Uniform, .spread = 0.1}});
  EXPECT_EQ(report.ranks.size(), 1024U);
  EXPECT_GT(report.step.count, 64 * 3e-3);
  const PipelineTable deep = make_pipeline("1f1b", {.ranks = 1000, .microbatches = 1000});
  const SimulationReport deep_report = simulate_pipeline(
      deep, equal_stages(1000, kWork), pipeline_cluster(1000), {.mesh = pipe_only(1000)});
  EXPECT_NEAR(deep_report.step.count, (1000 + 999) * 3e-3 + 2 * 999 * 1e-6 + 0.1e-3, 0.01);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 10);
}

TEST(PipelineSimulation, RejectsMismatches) {
  const PipelineTable table = make_pipeline("1f1b", {.ranks = 2, .microbatches = 2});
  const auto run = [&](const Mesh& mesh, int stages, int devices) {
    (void)simulate_pipeline(table, equal_stages(stages, kWork), pipeline_cluster(devices),
                            {.mesh = mesh});
  };
  expect_error(ErrorKind::Usage, "work of 3 stages; the table has 2",
               [&] { run(pipe_only(2), 3, 2); });
  expect_error(ErrorKind::Usage, "has 4 ranks along pipe; the table has 2",
               [&] { run(pipe_only(4), 2, 4); });
  expect_error(ErrorKind::Usage, "has 8 ranks; the cluster flat has 4 devices", [&] {
    run(Mesh({{"pipe", 2}, {"data", 4}}), 2, 4);
  });
}

}  // namespace
}  // namespace trireme::simulate
