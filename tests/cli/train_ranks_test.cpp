// `trireme train` on several ranks, as a user runs it: real processes, which must match the results of one device.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/training_runs.h"
#include "trireme/trace.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

using LongTrainRanks = TrainRanks;

TEST_F(TrainRanks, LossesMatchSingleDevice) {
  const std::vector<double> one = losses("");
  for (const char* options :
       {"-n 4 --mesh data=2,tensor=2 --zero 2", "--mesh pipe=2 --microbatches 4 --schedule chimera",
        "--mesh context=3 --context ring", "--mesh data=3 --zero 3"}) {
    expect_same(one, losses(options), options);
  }
  expect_same(losses("--experts 4"), losses("--experts 4 --mesh expert=2"), "experts");
}

TEST_F(LongTrainRanks, LossesMatchSingleDevice) {
  const std::vector<double> one = losses("");
  for (const char* options :
       {"-n 1", "-n 2", "--mesh pipe=2 --microbatches 2",
        "--mesh pipe=2 --microbatches 3 --schedule gpipe", "--mesh tensor=2 --sequence",
        "--mesh context=2 --context all-to-all", "--microbatches 2"}) {
    expect_same(one, losses(options), options);
  }
  expect_same(losses("--experts 4,every=2"),
              losses("--experts 4,every=2 --mesh data=2,expert=2 --zero 1"),
              "experts in every second block");
}

/// All ranks arrive at the same scale, and thus at the losses of one device.
TEST_F(TrainRanks, LossScalesMatchSingleDevice) {
  const auto lines = [&](const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 3 --json --dtype f16 --loss-scale 1e9 --run-folder " +
                    new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    std::vector<Json> all;
    std::istringstream in(ran.out);
    for (std::string line; std::getline(in, line);) {
      all.push_back(Json::parse(line));
    }
    return all;
  };
  const std::vector<Json> one = lines("--threads 1");
  for (const char* options : {"-n 2 --mesh data=2", "--mesh data=2 --zero 2 --microbatches 2",
                              "--mesh pipe=2 --microbatches 2"}) {
    const std::vector<Json> many = lines(options);
    ASSERT_EQ(many.size(), one.size());
    EXPECT_EQ(many.back()["overflows"], one.back()["overflows"]) << options;
    for (std::size_t i = 0; i < 3; ++i) {
      const double loss = one[i]["loss"].get<double>();
      EXPECT_EQ(many[i]["loss_scale"], one[i]["loss_scale"]) << options;
      EXPECT_NEAR(many[i]["loss"].get<double>(), loss, 1e-3 * loss) << options;
    }
  }
}

/// How a run ends: the validation loss and the sample.
class TrainRanksEnd : public TrainRanks {
 protected:
  struct End {
    double validation = 0;
    std::string sample{};
  };
  End end_of(const std::string& options) {
    const std::string command = kSmall + "--steps 2 " + options + " --run-folder ";
    const Ran ran = run_program(command + new_run());
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    const Ran again = run_program(command + new_run() + " --json");
    const Json summary = Json::parse(again.out.substr(again.out.find("{\"summary\"")));
    const std::size_t writes = ran.out.find("sample: ");
    EXPECT_NE(writes, std::string::npos) << ran.out;
    return End{.validation = summary.at("validation_loss").get<double>(),
               .sample = ran.out.substr(writes, ran.out.find('\n', writes) - writes)};
  }
  void expect_equal(const std::string& model, const std::vector<std::string>& plans) {
    const End one = end_of(model);
    for (const std::string& plan : plans) {
      const End many = end_of(fmt::format("{} {}", model, plan));
      EXPECT_NEAR(many.validation / one.validation, 1, kTolerance) << plan;
      EXPECT_EQ(many.sample, one.sample) << plan;
    }
  }
};
using LongTrainRanksEnd = TrainRanksEnd;

TEST_F(TrainRanksEnd, MatchesSingleDevice) {
  expect_equal("", {"--mesh context=3 --context ring",
                    "--mesh data=2,tensor=2,pipe=2 --microbatches 3 --recompute full --zero 1"});
}

TEST_F(LongTrainRanksEnd, MatchesSingleDevice) {
  expect_equal("", {"--mesh data=3 --zero 3", "--mesh tensor=2 --sequence",
                    "--mesh pipe=2 --microbatches 2 --schedule chimera", "--microbatches 3"});
  expect_equal("--experts 4", {"--mesh data=2,expert=2 --zero 2"});
}

/// Total FLOPs of a step, from its trace.
double flops_in(const Trace& trace) {
  double flops = 0;
  for (const Trace::Span& span : trace.spans) {
    for (const TraceArg& arg : span.args) {
      flops += arg.key == "flops" ? std::get<double>(arg.value) : 0;
    }
  }
  return flops;
}

TEST_F(TrainRanks, TraceShowsAllRanks) {
  const auto trace_of = [&](const std::string& options) {
    const std::string run = new_run();
    EXPECT_EQ(run_program(kSmall + "--steps 3 --run-folder " + run + options).exit_code, 0);
    return parse_trace(read_text(run + "/trace.json"));
  };
  const Trace one = trace_of("");
  const Trace two = trace_of(" --mesh pipe=2 --microbatches 2");
  EXPECT_EQ(two.title, one.title);
  std::set<std::string> processes;
  for (const Trace::Track& track : two.tracks) {
    processes.insert(track.process);
  }
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0", "rank 1"}));
  EXPECT_NEAR(flops_in(two) / flops_in(one), 1, 0.01);

  // Two micro-batches go from rank 0 to rank 1, and their gradients return.
  std::multiset<std::string> sends;
  for (const Trace::Span& span : two.spans) {
    const std::string& process = two.tracks[static_cast<std::size_t>(span.track.index)].process;
    for (const TraceArg& arg : span.args) {
      if (span.name == "send" && arg.key == "to") {
        sends.insert(fmt::format("{} to {}", process, std::get<std::int64_t>(arg.value)));
      }
    }
  }
  EXPECT_GE(sends.count("rank 0 to 1"), 2U);
  EXPECT_GE(sends.count("rank 1 to 0"), 2U);
}

TEST_F(TrainRanks, CustomTableRuns) {
  const std::string head = "ranks 2\nstages 2\nmicrobatches 3\nweights single\nplace 0 1\n";
  const std::string table =
      folder_.file("mine.pipeline", "trireme pipeline 1\nname mine\n" + head +
                                        "rank 0: F0.1 F0.0 B0.1 F0.2 B0.0 B0.2 U0.2\n"
                                        "rank 1: F1.1 B1.1 F1.0 B1.0 F1.2 B1.2 U1.2\nend\n");
  const std::vector<double> one = losses("");
  expect_same(one, losses("--mesh pipe=2 --schedule " + table), table);
  // The plan file written by the run contains the table.
  expect_same(one, losses("--plan " + (folder_ / "run-2/plan.json")), "its plan");
  expect_refused("--mesh pipe=2 --microbatches 2 --schedule " + table,
                 "the table mine is for 2 ranks and 3 micro-batches");
  const std::string wrong =
      folder_.file("wrong.pipeline", "trireme pipeline 1\nname wrong\n" + head +
                                         "rank 0: F0.0 F0.1 F0.2 B0.0 B0.1 B0.2 U0.2\n"
                                         "rank 1: F1.0 F1.1 F1.2 B1.0 B1.1 U1.2\nend\n");
  expect_refused("--mesh pipe=2 --schedule " + wrong, "the table wrong: micro-batch 2 goes back");
}

// Training with stale weights converges too, though not identically.
TEST_F(TrainRanks, LossFallsWithStaleWeights) {
  for (const char* schedule : {"pipedream --clip 0", "pipedream-2bw", "ampnet --clip 0"}) {
    const std::string run = new_run();
    const Ran ran = run_program(fmt::format(
        "train --model gpt-nano --batch 16 --length 32 --rate constant:0.003 --steps 40 "
        "--json --mesh pipe=2 --microbatches 4 --schedule {} --run-folder {}",
        schedule, run));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const std::vector<double> all = losses_in(ran.out);
    EXPECT_LT(all.back(), 0.8 * all.front()) << schedule;
  }
}

TEST_F(TrainRanks, PlanFileMatchesOptions) {
  const std::string plan = folder_.file(
      "my.plan.json",
      R"({"mesh": "data=2,pipe=2", "microbatches": 2, "schedule": "gpipe", "zero": 1})");
  const std::string options = "--mesh data=2,pipe=2 --microbatches 2 --schedule gpipe --zero 1";
  EXPECT_EQ(losses("--plan " + plan), losses(options));
  // Both run folders contain the same plan.
  EXPECT_EQ(read_text(folder_ / "run-1/plan.json"), read_text(folder_ / "run-2/plan.json"));
  EXPECT_EQ(losses("--plan " + (folder_ / "run-2/plan.json")), losses(options));
  expect_refused("--mesh data=2 --plan " + plan, "--plan");
}

/// FLOPs executed in a run's first step, relative to the model's FLOPs.
double executed_share(const std::string& run) {
  const std::string metrics = read_text(run + "/metrics.jsonl");
  const Json step = Json::parse(metrics.substr(0, metrics.find('\n')));
  return step["hfu"].get<double>() / step["mfu"].get<double>();
}

TEST_F(TrainRanks, PlanControlsRecomputation) {
  const auto recompute_in = [&](const std::string& file) {
    return Json::parse(read_text(folder_ / file))["recompute"];
  };
  const std::vector<double> kept = losses("-n 2");
  // Set by the option, which is stored in the plan; by a plan; and on one device.
  EXPECT_EQ(losses("-n 2 --recompute full"), kept);
  EXPECT_EQ(recompute_in("run-2/plan.json"), "full");
  EXPECT_EQ(losses("--plan " + (folder_ / "run-2/plan.json")), kept);
  EXPECT_EQ(recompute_in("run-3/settings.json"), "full");
  const std::string alone = folder_.file("alone.json", R"({"mesh": "", "recompute": "selective"})");
  expect_same(losses("--plan " + alone), kept, "one device");
  EXPECT_EQ(recompute_in("run-4/settings.json"), "selective");
  EXPECT_LT(executed_share(folder_ / "run-1"), executed_share(folder_ / "run-4"));
  EXPECT_LT(executed_share(folder_ / "run-4"), executed_share(folder_ / "run-2"));
  EXPECT_DOUBLE_EQ(executed_share(folder_ / "run-2"), executed_share(folder_ / "run-3"));
  // A resumed run keeps its setting unless a plan or the option overrides it.
  (void)resumed(folder_ / "run-2", "--steps 4");
  EXPECT_EQ(recompute_in("run-2/settings.json"), "full");
  (void)resumed(folder_ / "run-2", "--steps 5 --plan " + alone);
  EXPECT_EQ(recompute_in("run-2/settings.json"), "selective");
  (void)resumed(folder_ / "run-2", "--steps 6 --recompute 1GiB");
  EXPECT_EQ(recompute_in("run-2/settings.json"), "1024MiB");
  expect_refused("--recompute full --plan " + alone, "--recompute and --plan exclude each other");
  expect_refused("--zero 1 --plan " + alone, "--plan and --zero exclude each other");
  expect_refused("-n 2 --recompute 1KiB", "activations cannot be kept within 1 KiB");
}

TEST_F(TrainRanks, CheckpointResumesUnderAnyMesh) {
  const std::string whole_run = new_run();
  const std::string run = new_run();
  const Ran whole = run_program(kSmall + "--steps 6 --json --run-folder " + whole_run);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const Ran first = run_program(
      kSmall +
      "--steps 2 --json --mesh data=2,tensor=2,pipe=2 --microbatches 2 --zero 1 --run-folder " +
      run);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  std::vector<double> chain = losses_in(first.out);
  for (const char* options :
       {"-n 3 --steps 4 --zero 3", "--mesh pipe=2 --microbatches 2 --schedule chimera --steps 5",
        "--steps 6"}) {
    const std::vector<double> more = resumed(run, options);
    chain.insert(chain.end(), more.begin(), more.end());
  }
  expect_same(losses_in(whole.out), chain,
              "data=2,tensor=2,pipe=2, then 3 ranks, then two copies, then 1");
}

/// Compares tensor hashes of runs with a learning rate of 0, whose parameters do not change.
TEST_F(TrainRanks, TensorHashesAreIndependentOfMesh) {
  const auto hashes = [&](const std::string& options) {
    const std::string run = new_run();
    const Ran ran = run_program(
        "train --model gpt-nano --batch 6 --length 32 --rate constant:0 --steps 1 --json "
        "--run-folder " +
        run + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << options << ": " << ran.err;
    const std::string manifest = read_text(run + "/checkpoints/step-000001/manifest.json");
    const std::size_t begin = manifest.find("model.safetensors");
    std::string model = manifest.substr(begin, manifest.find(']', begin) - begin);
    EXPECT_GT(std::ranges::count(model, '\n'), 10) << manifest;
    return model;
  };
  const std::string one = hashes("");
  for (const char* options :
       {"-n 3 --zero 3", "--mesh data=2,tensor=2,pipe=2 --microbatches 2 --zero 2"}) {
    EXPECT_EQ(hashes(options), one) << options;
  }
}

TEST_F(TrainRanks, MemoryIsReportedByCategory) {
  const auto memory_of = [&](const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 1 --json --run-folder " + new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    const Json summary = Json::parse(ran.out.substr(ran.out.find('\n') + 1));
    double sum = 0;
    for (const auto& [what, bytes] : summary["memory"].items()) {
      sum += bytes.get<double>();
    }
    EXPECT_EQ(sum, summary["peak_memory_bytes"].get<double>()) << ran.out;
    return summary["memory"];
  };
  const Json one = memory_of("");
  const Json many = memory_of("--mesh data=2 --zero 3");
  EXPECT_EQ(one["communication_bytes"], 0);
  EXPECT_GT(many["communication_bytes"], 0);
  EXPECT_NEAR(many["parameter_bytes"].get<double>() / one["parameter_bytes"].get<double>(), 0.5,
              0.05);
  const Ran text =
      run_program(kSmall + "--steps 1 --mesh data=2 --zero 3 --run-folder " + new_run());
  EXPECT_NE(text.out.find(" communication"), std::string::npos) << text.out;
}

TEST_F(TrainRanks, SummaryIncludesWaterfall) {
  const auto waterfall_of = [&](const std::string& options) {
    const Ran ran =
        run_program(kSmall + "--steps 3 --json --run-folder " + new_run() + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    Json w = Json::parse(ran.out.substr(ran.out.find("{\"summary\"")))["waterfall"];
    double sum = 0;
    for (const auto& [what, share] : w.items()) {
      sum += what == "step" || what == "ranks" ? 0 : share.get<double>();
    }
    EXPECT_NEAR(sum, 1, 1e-9) << options;
    EXPECT_EQ(w["step"], 3) << options;
    return w;
  };
  const auto share = [](const Json& waterfall, const std::string& part) {
    return waterfall[part].get<double>();
  };
  const Json one = waterfall_of("");
  EXPECT_EQ(one["ranks"], 1);
  EXPECT_EQ(share(one, "messages") + share(one, "collectives"), 0);
  EXPECT_GT(share(one, "memory_bound"), 0);
  EXPECT_GT(share(waterfall_of("--recompute full"), "recomputation"), share(one, "recomputation"));
  const Json data = waterfall_of("--mesh data=2");
  EXPECT_EQ(data["ranks"], 2);
  EXPECT_GT(share(data, "collectives"), 0);
  EXPECT_EQ(share(data, "messages"), 0);
  EXPECT_GT(share(waterfall_of("--mesh pipe=2 --microbatches 2"), "messages"), 0);
  const Ran text = run_program(kSmall + "--steps 3 --mesh data=2 --run-folder " + new_run());
  EXPECT_NE(text.out.find("  where the peak went in step 3, mean of 2 ranks:\n"), std::string::npos)
      << text.out;
  const Ran untraced = run_program(kSmall + "--steps 2 --json --run-folder " + new_run());
  EXPECT_NE(untraced.out.find("\"waterfall\":null"), std::string::npos) << untraced.out;
}

/// Where the update runs elsewhere than the gradients, on worker 0 or servers, a step is two graphs.
TEST_F(TrainRanks, CompilesStepAndEvaluationOnce) {
  const std::map<std::string, int> compilations{
      {"", 2},
      {"-n 2", 2},
      {"--mesh data=2,pipe=2 --microbatches 2 --zero 1", 2},
      {"-n 2 --sync local=2", 2},
      {"-n 2 --sync hogwild", 2},
      {"-n 2 --sync tree", 3},
      {"-n 2 --sync ps:bsp", 3}};
  for (const auto& [options, expected] : compilations) {
    const Ran ran = run_program(fmt::format(
        "{}--steps 2 --validate-every 1 --json --run-folder {} {}", kSmall, new_run(), options));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const Json summary = Json::parse(ran.out.substr(ran.out.find("{\"summary\"")));
    EXPECT_EQ(summary["compilations"], expected) << options;
  }
}

TEST_F(TrainRanks, CompressionSendsFewerBytes) {
  const std::string run = new_run();
  const Ran text = run_program(kSmall + "--steps 3 -n 2 --compress top-k:0.01 --run-folder " + run);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("ranks    2 ranks: data=2, gradients by top-k:0.01\n"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("along data in a step; uncompressed"), std::string::npos) << text.out;
  EXPECT_EQ(Json::parse(read_text(run + "/plan.json"))["compression"], "top-k:0.01");
  const Ran json =
      run_program("train --json --steps 5 --resume " + run + " --plan " + run + "/plan.json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  std::istringstream lines(json.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json one = Json::parse(line);
    EXPECT_GT(one["data_bytes_uncompressed"].get<double>(),
              10 * one["data_bytes_sent"].get<double>())
        << line;
    EXPECT_GT(one["data_bytes_sent"].get<double>(), 0) << line;
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(resumed(run, "-n 3 --compress power:2 --steps 6").size(), 1U);
  EXPECT_EQ(resumed(run, "--mesh data=2,tensor=2 --compress sign --zero 1 --steps 7").size(), 1U);
  EXPECT_EQ(resumed(run, "--steps 8").size(), 1U);
  const Ran plain = run_program(kSmall + "--steps 1 -n 2 --json --run-folder " + new_run());
  EXPECT_EQ(plain.out.find("data_bytes"), std::string::npos);
}

}  // namespace
}  // namespace trireme
