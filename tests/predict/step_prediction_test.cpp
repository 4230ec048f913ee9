#include "trireme/step_prediction.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "predict/measured_host.h"
#include "trireme/graph.h"

namespace trireme::predict {
namespace {

constexpr double kKernel = 2e-3;  ///< of one of as many ranks as there are cores

/// Three kernels, and a sum over the ranks.
Program program_of(int ranks) {
  GraphBuilder b("step");
  const ValueId x = b.input("x", {DType::F32, {64, 64}});
  ValueId y = b.add1("relu", {x});
  if (ranks > 1) {
    y = b.add1("all_reduce", {y}, {{"group", std::string("data")}, {"ranks", std::int64_t{ranks}}});
  }
  b.output("y", b.add1("tanh", {b.add1("relu", {y})}));
  return make_program(b.finish());
}

double step_of(int ranks, const HostCosts& costs) {
  const std::vector<Program> programs(static_cast<std::size_t>(ranks), program_of(ranks));
  const simulate::SimulationReport report =
      predict_step(RankPrograms::one_each(programs), Mesh({{"data", ranks}}), costs, {});
  return report.step.count;
}

TEST(StepPrediction, SumsKernelsOfRank) {
  EXPECT_NEAR(step_of(1, free_communication(2)), 3 * 1e-3, 1e-12);
  EXPECT_NEAR(step_of(2, free_communication(2)), 3 * kKernel, 1e-12);
}

TEST(StepPrediction, OversubscribedRanksTakeTurns) {
  EXPECT_NEAR(step_of(4, free_communication(2)), 2 * 3 * kKernel, 1e-12);
  EXPECT_NEAR(step_of(6, free_communication(2)), 3 * 3 * kKernel, 1e-12);
}

TEST(StepPrediction, AddsCommunication) {
  HostCosts costs = free_communication(2);
  costs.waits = {{2, {5e-3}, {0}}};
  EXPECT_NEAR(step_of(2, costs), 3 * kKernel + 5e-3, 1e-12);
}

TEST(StepPrediction, IsReproducible) {
  HostCosts costs = free_communication(2);
  costs.waits = {{2, {3.3e-4}, {1e-5}}};
  EXPECT_EQ(step_of(4, costs), step_of(4, costs));
}

TEST(StepPrediction, RankIsFasterWhileOthersWait) {
  GraphBuilder first("first");
  ValueId x = first.input("x", {DType::F32, {64, 64}});
  ValueId y = first.add1("relu", {x});
  first.output("sent",
               first.add1("send", {y}, {{"to", std::int64_t{1}}, {"tag", std::int64_t{0}}}));
  GraphBuilder second("second");
  x = second.input("x", {DType::F32, {64, 64}});
  y = second.add1("receive", {},
                  {{"from", std::int64_t{0}},
                   {"tag", std::int64_t{0}},
                   {"shape", std::vector<std::int64_t>{64, 64}},
                   {"dtype", std::string("f32")}});
  second.output("y", second.add1("relu", {y}));
  const std::vector<Program> programs{make_program(first.finish()), make_program(second.finish())};
  const simulate::SimulationReport report =
      predict_step(RankPrograms::one_each(programs), Mesh({{"pipe", 2}}), free_communication(2),
                   {.trace = true});
  EXPECT_NEAR(report.step.count, kKernel, 1e-12);  // in sequence, each twice as fast
  EXPECT_EQ(problems(report.trace), std::vector<std::string>{});
}

/// Two stages of a pipeline with two replicas each; every stage has one kernel of kKernel, however many ranks compute.
double step_of_replicated_pipeline() {
  std::vector<Program> programs;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    GraphBuilder b("stage");
    ValueId x = b.input("x", {DType::F32, {64, 64}});
    if (rank < 2) {
      b.output("sent", b.add1("send", {b.add1("relu", {x})}, {{"to", rank + 2}, {"tag", rank}}));
    } else {
      x = b.add1("receive", {},
                 {{"from", rank - 2},
                  {"tag", rank - 2},
                  {"shape", std::vector<std::int64_t>{64, 64}},
                  {"dtype", std::string("f32")}});
      b.output("y", b.add1("relu", {x}));
    }
    programs.push_back(make_program(b.finish()));
  }
  HostCosts costs = free_communication(2);
  for (ComputeSetting& setting : costs.compute->settings) {
    setting.kernels = {per_call("*", kKernel)};
  }
  return predict_step(RankPrograms::one_each(programs), Mesh({{"pipe", 2}, {"data", 2}}), costs, {})
      .step.count;
}

TEST(StepPrediction, IsMeanOverPlacementsOfRanksOnCores) {
  const double replicas_on_two_cores = 2 * kKernel;
  const double replicas_on_one_core = 3 * kKernel;  // the second ones wait for the first ones' core
  EXPECT_NEAR(step_of_replicated_pipeline(), (replicas_on_two_cores + replicas_on_one_core) / 2,
              1e-12);
}

TEST(StepPrediction, TimesOfRankSumToStep) {
  HostCosts costs = free_communication(2);
  costs.waits = {{2, {3.3e-4}, {1e-5}}};
  const std::vector<Program> programs(4, program_of(4));
  const simulate::SimulationReport report =
      predict_step(RankPrograms::one_each(programs), Mesh({{"data", 4}}), costs,
                   {.variation = {.jitter = simulate::Jitter::Uniform}, .trace = true});
  for (const simulate::RankReport& rank : report.ranks) {
    EXPECT_NEAR(rank.compute.count + rank.exposed.count + rank.idle.count, report.step.count,
                1e-12);
  }
  EXPECT_EQ(problems(report.trace), std::vector<std::string>{});
}

TEST(StepPrediction, RequiresComputeCosts) {
  HostCosts costs = free_communication(2);
  costs.compute.reset();
  expect_error(ErrorKind::Usage, "run 'trireme probe'", [&] { (void)step_of(1, costs); });
}

}  // namespace
}  // namespace trireme::predict
