#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/program.h"
#include "cli/program_says.h"
#include "cli/training_runs.h"
#include "cost/published_runs.h"
#include "trireme/cluster.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

Json planned(const std::string& arguments) {
  const Ran ran = run_program("plan --json " + arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return parse_json(ran.out, "output");
}

TEST(PlanCommand, ListsBestPlans) {
  const Json json = planned("--model llama3-405b --cluster 2048xdgx-h100 --batch 16Mtokens");
  EXPECT_EQ(json.at("batch"), 2048);
  EXPECT_EQ(json.at("devices"), 16384);
  EXPECT_EQ(json.at("plans").size(), 10U);
  EXPECT_GT(json.at("searched"), 100);
  for (const Json& plan : json.at("plans")) {
    double sum = 0;
    for (const auto& [part, seconds] : plan.at("seconds_by_part").items()) {
      sum += seconds.get<double>();
    }
    EXPECT_NEAR(sum, plan.at("step_seconds").get<double>(), 1e-9 * sum);
    EXPECT_LE(plan.at("memory_bytes"), json.at("memory_limit_bytes"));
  }
}

TEST(PlanCommand, BreaksDownTime) {
  const Ran ran = run_program("plan --model llama3-70b --cluster dgx-h100:8 --batch 512 --explain");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* text :
       {"MFU %", "Why the others are slower", "useful", "Memory of its fullest device",
        "Assumptions", "fitted to runs", "Memory of its fullest rank under trireme train: "}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
}

/// A cluster of four devices whose rates are known.
constexpr const char* kFourDevices = R"({
  "name": "four", "nodes": 1, "devices_per_node": 4,
  "device": {"name": "cpu", "memory_bytes": 4e9, "memory_bytes_per_second": 1e10,
             "peak_flops_per_second": {"f32": {"dense": 5e10}}},
  "links": [{"level": "node", "reach": 4, "alpha_seconds": 1e-6, "beta_seconds_per_byte": 1e-10}],
  "gamma_seconds_per_byte": 1e-10
})";

TEST(PlanCommand, WritesTrainablePlan) {
  const std::string cluster = scratch_folder() + "/four.cluster.json";
  write_text(cluster, kFourDevices);
  const std::string file = scratch_folder() + "/best.plan.json";
  const std::string sizes = "--model gpt-mini --batch 16 --length 64 ";
  int runs = 0;
  for (const char* axes : {"tensor=2", "pipe=2 --wide", "pipe=2,tensor=2 --recompute full"}) {
    const Ran found = run_program(fmt::format("plan --dtype f32 --cluster {} {} -o {} --mesh {}",
                                              cluster, sizes, file, axes));
    ASSERT_EQ(found.exit_code, 0) << found.err;
    EXPECT_EQ(parse_plan(read_text(file)).mesh.devices(), 4);
    const Ran trained =
        run_program(fmt::format("train --steps 2 --run-folder {}/planned-{} {} --plan {}",
                                scratch_folder(), ++runs, sizes, file));
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
  const Ran two = run_program("plan --model gpt-mini --cluster laptop --batch 16 --length 64");
  EXPECT_EQ(two.exit_code, 2);  // nothing is known of its processors
  EXPECT_NE(two.err.find("not known"), std::string::npos) << two.err;
}

/// Two nodes, of which the second is three times as fast, train a plan with unequal stages.
TEST(PlanCommand, PlansForHeterogeneousNodes) {
  const auto kind = [](const char* name, double flops) {
    return fmt::format(
        R"({{"nodes": 1, "device": {{"name": "{}", "memory_bytes": 4e9, "memory_bytes_per_second": 1e10,
            "peak_flops_per_second": {{"f32": {{"dense": {}}}}}}},
            "links": [{{"level": "network", "reach": 2, "alpha_seconds": 1e-6, "beta_seconds_per_byte": 1e-10}}]}})",
        name, flops);
  };
  const std::string cluster = scratch_folder() + "/mixed.cluster.json";
  write_text(cluster, fmt::format(R"({{"name": "mixed", "nodes": 2, "devices_per_node": 1,
      "kinds": [{}, {}], "gamma_seconds_per_byte": 1e-10}})",
                                  kind("old", 5e10), kind("new", 15e10)));
  const std::string file = scratch_folder() + "/mixed.plan.json";
  const std::string sizes = "--model gpt-mini --batch 16 --length 64 ";
  const Ran found = run_program(
      fmt::format("plan --dtype f32 --cluster {} {} -o {} --mesh pipe=2", cluster, sizes, file));
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_NE(found.out.find("Devices differ"), std::string::npos) << found.out;
  const Plan plan = parse_plan(read_text(file));
  ASSERT_EQ(plan.stage_blocks.size(), 2U);
  EXPECT_LT(plan.stage_blocks[0], plan.stage_blocks[1]);
  const Ran trained = run_program(fmt::format("train --steps 2 --run-folder {}/mixed {} --plan {}",
                                              scratch_folder(), sizes, file));
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
}

TEST(PlanCommand, RandomWalkIsBaseline) {
  const std::string sizes = "--model llama3-8b --cluster dgx-h100:2 --batch 128 --wide ";
  const Json all = planned(sizes);
  const Json walk = planned(sizes + "--search mcmc --moves 5000 --seed 3");
  EXPECT_EQ(walk.at("search"), "mcmc");
  const double best = all.at("plans")[0].at("step_seconds").get<double>();
  EXPECT_GE(walk.at("plans")[0].at("step_seconds"), best);
  EXPECT_LE(walk.at("plans")[0].at("step_seconds"), 1.2 * best);
}

TEST(PlanCommand, PrintsEnergyAndCost) {
  const std::string sizes = "--model llama3-8b --cluster dgx-h100:2 --batch 128 ";
  const Json plan = planned(sizes + "--price 2.5 --tokens 15T").at("plans")[0];
  const double step = plan.at("step_seconds").get<double>();
  EXPECT_NEAR(plan.at("step_bill").at("joules").get<double>(), 16 * 700 * step, 1e-6 * step);
  EXPECT_NEAR(plan.at("step_bill").at("dollars").get<double>(), 16 * 2.5 * step / 3600, 1e-9);
  EXPECT_GT(plan.at("training_bill").at("seconds"), 1e6 * step);
  const Ran text = run_program("plan " + sizes + "--tokens 1T");
  EXPECT_NE(text.out.find("kWh"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("1e+12 tokens take"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("dollars"), std::string::npos) << text.out;
  expect_refused("plan " + sizes + "--tokens many", {"not a number of tokens"});
}

TEST(PlanCommand, SuggestsWhatWouldFit) {
  const Ran ran = run_program("plan --model llama3-405b --cluster dgx-h100:2 --batch 64");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("nothing fits"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("devices"), std::string::npos) << ran.out;
}

/// Of a model whose ZeRO 3 needs more under Trireme than under Megatron.
Ran plan_with_zero_3(const std::string& options) {
  return run_program(
      fmt::format("plan --model llama3-8b --cluster dgx-h100 --batch 128 --zero 3 "
                  "--keep 1 -o {}/large.plan.json {}",
                  scratch_folder(), options));
}

TEST(PlanCommand, FindsPlansThatFitUnderTrain) {
  const Ran ran = plan_with_zero_3("");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.err.find("needs"), std::string::npos) << ran.err;
}

TEST(PlanCommand, WarnsAboutPlansThatTrainWouldReject) {
  const Ran ran = plan_with_zero_3("--recipe megatron");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_NE(ran.err.find("plan 1 needs"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("no listed plan runs and fits"), std::string::npos) << ran.err;
}

TEST(PlanCommand, TellsWhyTrainCannotRunPlan) {
  const Ran ran = run_program(
      "plan --model mixtral-8x7b --cluster dgx-h200:2 --mesh data=2,tensor=8 --batch 16 "
      "--microbatch 1 --keep 1 --memory-limit 3TB --explain");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_NE(ran.err.find("trireme train cannot run plan 1: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("per=microbatch"), std::string::npos) << ran.err;
}

TEST(PlanCommand, PlacesEveryValue) {
  const Ran ran = run_program(
      "plan --ops --model mlp --cluster dgx-a100 --dtype f32 --batch 65536 --mesh data=4 --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = parse_json(ran.out, "plan");
  EXPECT_LE(json.at("step_seconds"), json.at("replicated_seconds"));
  EXPECT_EQ(json.at("values").size(), 15U);
}

TEST(PlanCommand, RejectsBadOptions) {
  expect_refused("plan --schedule zb-h2 -o x.plan.json", {"zb-h2 can be costed, not run"});
  expect_refused("plan --recipe deepspeed", {"--recipe", "trireme", "megatron"});
  expect_refused("plan --model llama9", {"--model: unknown"});
  expect_refused("plan --batch none", {"--batch: 'none' is not a number of sequences"});
  expect_refused("plan --batch 16Gtokens", {"--batch: '16Gtokens' is not a number"});
  expect_refused("plan --mesh tenser=8", {"did you mean tensor?"});
  expect_refused("plan --mesh tensor=7", {"divides the heads"});
  expect_refused("plan --schedule 2f2b", {"--schedule: unknown schedule '2f2b'"});
  expect_refused("plan --cluster dgx-a100 --dtype f8", {"f8 peak of a100 is not known"});
}

/// The communication of a rank in the JSON of `plan show`, of one op.
std::vector<Json> communication_by(const Json& json, std::size_t rank, const std::string& op) {
  std::vector<Json> found;
  for (const Json& use : json.at("by_rank").at(rank).at("communication")) {
    if (use.at("op") == op) {
      found.push_back(use);
    }
  }
  return found;
}

TEST(PlanShowCommand, PrintsRankPrograms) {
  const std::string sizes = "--model gpt-mini --batch 8 --length 64 ";
  const Ran ran = run_program("plan show --mesh data=2,tensor=2 --zero 1 " + sizes);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* text : {"Communication of rank 0", "all_reduce      tensor", "reduce_scatter",
                           "origin", "new/wte.weight", "Sent by all ranks: gradient ",
                           "optimizer state 0 B", "Memory at the peak, and idle time"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
  const Ran shown = run_program("plan show --json --mesh pipe=2,data=2 --microbatches 4 " + sizes);
  const Json json = parse_json(shown.out, "output");
  EXPECT_EQ(json.at("ranks"), 4);
  ASSERT_EQ(json.at("by_rank").size(), 4U);
  for (const Json& rank : json.at("by_rank")) {
    EXPECT_NEAR(rank.at("idle").get<double>(), 0.2, 1e-9);  // (D-1)/(N+D-1)
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : rank.at("memory_bytes").items()) {
      sum += bytes.get<std::int64_t>();
    }
    EXPECT_EQ(rank.at("peak_bytes"), sum);
  }
  EXPECT_GT(json.at("sent_bytes").at("gradient"), 0);
  EXPECT_GT(json.at("sent_bytes").at("activation"), 0);
  EXPECT_EQ(json.at("sent_bytes").at("optimizer"), 0);
}

// Both ends of a message name the same tensor, bytes and calls; the terms of a tied embedding's gradient, which the
// last stage sends to the first, count as gradients.
TEST(PlanShowCommand, NamesMessages) {
  const Ran shown = run_program(
      "plan show --json --mesh pipe=2 --microbatches 4 --model gpt-mini --batch 8 --length 64");
  const Json json = parse_json(shown.out, "output");
  using Message = std::pair<std::string, double>;  // what it carries, bytes
  const auto messages = [&](std::size_t rank, const std::string& op) {
    std::map<Message, int> calls;
    for (const Json& use : communication_by(json, rank, op)) {
      EXPECT_EQ(use.at("axis"), "pipe");
      EXPECT_EQ(use.at("peer"), 1 - static_cast<int>(rank));
      EXPECT_NE(use.at("origin"), "");
      calls[{use.at("carries").get<std::string>(), use.at("bytes").get<double>()}] +=
          use.at("calls").get<int>();
    }
    return calls;
  };
  EXPECT_EQ(messages(0, "send"), messages(1, "receive"));
  EXPECT_EQ(messages(1, "send"), messages(0, "receive"));
  const double embedding = 256 * 128 * 4;
  EXPECT_EQ((messages(0, "send")[{"parameter", embedding}]), 1);
  EXPECT_EQ((messages(1, "send")[{"gradient", embedding}]), 4);
}

// A model that nobody trains here, on more ranks than are compiled: memory of each kind of rank.
TEST(PlanShowCommand, ShowsLargeMeshes) {
  const std::string plan =
      "plan show --model llama3-8b --dtype bf16 --batch 256 --length 2048 "
      "--mesh data=64,pipe=4,tensor=8 --microbatches 4 --zero 1 ";
  const Ran ran = run_program(plan);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* text :
       {"on 2048 ranks", "Sent by all ranks", "0 and 511 more", "8 and 511 more"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
  expect_refused("plan show --model llama4-maverick --mesh data=2",
                 {"no graph of llama4-maverick"});
}

TEST(PlanShowCommand, AcceptsFile) {
  const std::string file = scratch_folder() + "/shown.plan.json";
  write_text(file, "{\"mesh\": \"data=2\", \"zero\": 3}");
  const Ran ran = run_program("plan show " + file + " --model gpt-mini --batch 8 --length 64");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("ZeRO 3"), std::string::npos);
  EXPECT_NE(ran.out.find("all_gather      data"), std::string::npos) << ran.out;
  expect_refused("plan show " + file + " --mesh data=2", {"give a plan file or --mesh"});
  expect_refused("plan show --mesh data=2 --rank 2", {"--rank: the plan has ranks 0 to 1"});
}

// The names that --ops and --values list are those that a plan takes.
TEST(PlanShowCommand, ListsOpsAndValues) {
  const std::string file = scratch_folder() + "/assigned.plan.json";
  write_text(file, R"json({"mesh": "pipe=2,tensor=2", "ops": {"layers.0.relu": {"device": 1}},
      "values": {"layers.1.weight": {"device": 0, "tensor": "sharded(1)"}}})json");
  const std::string command = "plan show " + file + " --model mlp --batch 8 ";
  const Ran ops = run_program(command + "--ops");
  EXPECT_EQ(ops.exit_code, 0) << ops.err;
  for (const char* text : {"op ", "layers.0.einsum", "grad/layers.0.relu/relu_backward"}) {
    EXPECT_NE(ops.out.find(text), std::string::npos) << text << "\n" << ops.out;
  }
  const Json listed = parse_json(run_program(command + "--ops --json").out, "output");
  for (const Json& op : listed.at("ops")) {
    const std::string name = op.at("name").get<std::string>();
    if (name == "layers.0.relu" || name == "grad/layers.0.relu/relu_backward") {
      EXPECT_EQ(op.at("devices"), Json::array({1})) << name;
    }
    if (name == "layers.0.einsum") {
      EXPECT_EQ(op.at("devices"), Json::array({0}));
    }
  }
  const Json values = parse_json(run_program(command + "--values --json").out, "output");
  bool found = false;
  for (const Json& value : values.at("values")) {
    if (value.at("name") == "layers.1.weight") {
      EXPECT_EQ(value.at("devices"), Json::array({0}));
      EXPECT_EQ(value.at("placement"), "[1:tensor]");
      found = true;
    }
  }
  EXPECT_TRUE(found);
  expect_refused(command + "--ops --values", {"--ops"});
}

TEST(PlanShowCommand, ReportsUnknownOps) {
  const std::string file = scratch_folder() + "/unknown.plan.json";
  write_text(file, R"({"mesh": "pipe=2", "ops": {"layers.0.rule": {"device": 1}}})");
  expect_refused("plan show " + file + " --model mlp",
                 {"plan: unknown op 'layers.0.rule'; did you mean 'layers.0.relu'?"});
}

// Each example plan trains as one device does, and its step can be simulated.
TEST(PlanExamples, TrainLikeOneDevice) {
  const std::vector<std::pair<std::string, std::string>> plans{{"conv-mini", "branches"},
                                                               {"mlp", "remote-weights"}};
  int runs = 0;
  for (const auto& [model, name] : plans) {
    const std::string plan = fmt::format(" --plan {}/{}.plan.json", TRIREME_EXAMPLES, name);
    const auto losses = [&, &model = model](const std::string& options) {
      const Ran ran = run_program(
          fmt::format("train --model {} --batch 8 --steps 3 --threads 1 --json --run-folder "
                      "{}/example-{}{}",
                      model, scratch_folder(), ++runs, options));
      EXPECT_EQ(ran.exit_code, 0) << ran.err;
      return losses_in(ran.out);
    };
    expect_same(losses(""), losses(plan), name);
    const Ran simulated =
        run_program(fmt::format("simulate --flops 1e9 --model {}{}", model, plan));
    EXPECT_EQ(simulated.exit_code, 0) << simulated.err;
  }
  const std::string plan = fmt::format("{}/branches.plan.json", TRIREME_EXAMPLES);
  expect_refused("simulate --tasks --plan " + plan, {"leave out --tasks"});
}

std::string runs_file() {
  std::string file = scratch_folder() + "/runs.csv";
  write_text(file, std::string(kPublishedRuns));
  return file;
}

TEST(ValidateCommand, ReportsErrorsBySource) {
  const Ran ran = run_program("validate --runs " + runs_file());
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* text : {"15 runs", "Korthikanti", "worst predictions", "regret", "accounting"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
  const Ran json =
      run_program("validate --json --calibrate-on 0.2 --draws 4 --seed 2 --runs " + runs_file());
  const Json parsed = parse_json(json.out, "output");
  EXPECT_EQ(parsed.at("rows"), 15);
  EXPECT_LT(parsed.at("mape_percent"), 15);
  EXPECT_TRUE(parsed.contains("median_percent"));
  EXPECT_TRUE(parsed.contains("regret_percent"));
  EXPECT_EQ(parsed.at("by_source").size(), 3U);
}

TEST(ValidateCommand, RejectsFilesWithoutRuns) {
  const std::string file = scratch_folder() + "/none.csv";
  write_text(file, "a,b\n1,2\n");
  expect_refused("validate --runs " + file, {"line 1: no column seconds_per_step"});
}

TEST(CalibrateCommand, WritesUsableCluster) {
  const std::string file = scratch_folder() + "/fitted.cluster.json";
  const Ran ran =
      run_program("calibrate --runs " + runs_file() + " --cluster dgx-a100:4 -o " + file);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.err.find("13 runs on a100: mean error"), std::string::npos) << ran.err;
  const Cluster cluster = parse_cluster(read_text(file));
  ASSERT_TRUE(cluster.efficiency);
  EXPECT_NE(cluster.efficiency->source.find("fitted to 13 runs"), std::string::npos);
  EXPECT_EQ(run_program("plan --model llama3-8b --batch 128 --cluster " + file).exit_code, 0);
  expect_refused("calibrate --cluster dgx-v100 --runs " + runs_file(), {"has no runs on v100"});
}

}  // namespace
}  // namespace trireme
