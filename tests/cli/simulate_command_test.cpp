#include <gtest/gtest.h>

#include "cli/program_says.h"
#include "trireme/files.h"
#include "trireme/plan.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

double of_ideal(const Json& json, const std::string& strategy) {
  for (const Json& row : json.at("strategies")) {
    if (row.at("strategy") == strategy) {
      return row.at("of_ideal").get<double>();
    }
  }
  ADD_FAILURE() << strategy;
  return 0;
}

TEST(SimulateCommand, ComparesStrategies) {
  const Json json = json_of("simulate --strategies --workers 8 --slow 1x2 --json");
  EXPECT_EQ(json.at("strategies").size(), 7U);
  EXPECT_EQ(of_ideal(json, "bsp"), 0.5);
  EXPECT_NEAR(of_ideal(json, "ssp"), 0.5, 0.005);
  EXPECT_GT(of_ideal(json, "async"), 0.9);
}

TEST(SimulateCommand, PrintsStrategiesAsText) {
  const Ran ran = run_program(
      "simulate --strategies --workers 8 --slow 1x2 --jitter exponential --staleness 3 --steps 100 "
      "--seed 1 --transient 0.05x10 --alpha 1ms --transfer 10ms");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* text : {"of 8 workers, 100 steps each",
                           "takes 1 s, exponential jitter, 2 times as long on 1 slow worker",
                           "ssp (s = 3)", "gossip", "all-reduce"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << ran.out;
  }
}

constexpr const char* kSmallStep =
    "simulate --model gpt-mini --batch 8 --length 32 --cluster figure-4x4 --flops 1e12 ";

TEST(SimulateCommand, SimulatesSingleRankStep) {
  const Json json = json_of(std::string(kSmallStep) + "--json");
  EXPECT_EQ(json.at("ranks").size(), 1U);
  EXPECT_EQ(json.at("compute_share"), 1);
  EXPECT_EQ(json.at("bytes_sent"), 0);
}

/// Four stages are the only kinds of ranks.
TEST(SimulateCommand, SimulatesThousandRanks) {
  const Json json = json_of(
      "simulate --model gpt-mini --batch 256 --length 32 --mesh data=64,pipe=4,tensor=4 "
      "--microbatches 4 --cluster 128xdgx-h100 --dtype bf16 --json");
  ASSERT_EQ(json.at("ranks").size(), 1024U);
  EXPECT_EQ(json.at("ranks")[0], json.at("ranks")[1008]);
  EXPECT_NE(json.at("ranks")[0], json.at("ranks")[4]);
}

TEST(SimulateCommand, KernelsTakeWhatTrainingReachesUnlessRatesAreGiven) {
  const std::string step =
      "simulate --model gpt-mini --batch 8 --length 256 --cluster dgx-h100 --dtype bf16 --json ";
  const auto seconds = [&](const char* rates) {
    return json_of(step + rates).at("step_seconds").get<double>();
  };
  EXPECT_GT(seconds(""), seconds("--efficiency 1"));
  EXPECT_GT(seconds("--efficiency 0.5"), seconds("--efficiency 1"));
}

TEST(SimulateCommand, SimulatesEveryKindOfPlan) {
  const double alone = json_of(std::string(kSmallStep) + "--json").at("step_seconds").get<double>();
  for (const char* plan :
       {"--mesh data=4", "--mesh data=2 --zero 1", "--mesh data=2 --zero 3", "--mesh tensor=2",
        "--mesh tensor=2 --sequence", "--mesh context=2 --context ring",
        "--mesh pipe=2 --microbatches 4", "--mesh pipe=2 --microbatches 4 --schedule zb-v",
        "--mesh data=2,pipe=2,tensor=2 --microbatches 2 --recompute full",
        "--mesh data=2 --shared-port --slow 1x2 --jitter uniform"}) {
    const std::string arguments = std::string(kSmallStep) + plan + " --json";
    const Json json = json_of(arguments);
    const double step = json.at("step_seconds").get<double>();
    EXPECT_GT(step, alone / static_cast<double>(json.at("ranks").size())) << plan;
    EXPECT_GT(json.at("bytes_sent"), 0) << plan;
    const double shares = json.at("compute_share").get<double>() +
                          json.at("exposed_share").get<double>() +
                          json.at("idle_share").get<double>();
    EXPECT_NEAR(shares, 1, 1e-9) << plan;
    EXPECT_EQ(json_of(arguments), json) << plan;  // reproducible
  }
}

/// All ranks do the same, so none waits for another.
TEST(SimulateCommand, EqualRanksDoNotIdle) {
  EXPECT_EQ(json_of(std::string(kSmallStep) + "--mesh data=4,tensor=2 --json").at("idle_share"), 0);
}

TEST(SimulateCommand, OverlapDoesNotSlowStepDown) {
  const std::string plan = std::string(kSmallStep) + "--mesh data=4 --json ";
  EXPECT_LE(json_of(plan).at("step_seconds"), json_of(plan + "--no-overlap").at("step_seconds"));
}

TEST(SimulateCommand, SimulatesTasksOnThousandRanks) {
  const Json json = json_of(
      "simulate --tasks --mesh pipe=8,data=16,tensor=8 --microbatches 64 --cluster 128xdgx-h100 "
      "--forward 10ms --backward 20ms --gradient-bytes 1GiB --message-bytes 4MiB --tensor-bytes "
      "16MiB --buckets 8 --json");
  EXPECT_EQ(json.at("ranks").size(), 1024U);
  EXPECT_GT(json.at("step_seconds"), 71 * 30e-3);  // (64 + 8 - 1) micro-batches
  EXPECT_LT(json.at("step_seconds"), 75 * 30e-3);
  EXPECT_EQ(json.at("mfu"), nullptr);
}

TEST(SimulateCommand, TasksTakeTableTime) {
  const Json json = json_of(
      "simulate --tasks --mesh pipe=4 --microbatches 8 --schedule interleaved --chunks 2 --cluster "
      "figure-4x4 --json --trace t.json");
  // N + (D - 1) / K micro-batches of 3 ms, and messages of 1 us.
  EXPECT_NEAR(json.at("step_seconds").get<double>(), (8 + 3.0 / 2) * 3e-3, 20e-6);
}

TEST(SimulateCommand, WritesTraceAndReadsPlan) {
  write_text(scratch_folder() + "/my.plan.json",
             to_text(Plan{.mesh = parse_mesh("data=2,pipe=2"), .microbatches = 2}));
  const Ran ran = run_program(std::string(kSmallStep) + "--plan my.plan.json --trace t.trace.json");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const Trace trace = parse_trace(read_file(scratch_folder() + "/t.trace.json"));
  EXPECT_EQ(trace.kind, TraceKind::Predicted);
  EXPECT_GT(trace.spans.size(), 100U);
  EXPECT_NE(ran.out.find("data=2,pipe=2"), std::string::npos) << ran.out;
}

TEST(SimulateCommand, ErrorsSuggestFix) {
  expect_refused("simulate --strategies --slow 2", {"--slow", "such as 1x2"});
  expect_refused("simulate --strategies --slow 0.5x2", {"--slow", "not a number of workers"});
  expect_refused("simulate --strategies --slow 9x2", {"9 of 8 workers are slow"});
  expect_refused("simulate --strategies --jitter normal", {"none, uniform or exponential"});
  expect_refused("simulate --workers 4", {"--strategies"});
  expect_refused("simulate --model gpt-mini", {"--cluster laptop", "unknown", "give --flops"});
  expect_refused("simulate --mesh data=16 --flops 1e12 --cluster laptop --batch 16",
                 {"16 ranks", "laptop has 2 devices"});
  expect_refused("simulate --tasks --forward soon", {"--forward"});
  expect_refused("simulate --forward 1ms", {"--tasks"});
  expect_refused("simulate --tasks --strategies", {"--strategies"});
  expect_refused("simulate --model gpt-none --flops 1e12", {"--model"});
}

}  // namespace
}  // namespace trireme
