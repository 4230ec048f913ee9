// `trireme train --sync` and `trireme straggler`, as a user runs them.
#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/program_says.h"
#include "cli/training_runs.h"

namespace trireme {
namespace {

using TrainSync = TrainRanks;
using Straggler = TrainRanks;

TEST_F(TrainSync, MatchesDefaultAllReduceBitForBit) {
  EXPECT_EQ(losses("-n 2 --sync allreduce"), losses("-n 2"));
}

TEST_F(TrainSync, ComposesWithOtherAxes) {
  const std::vector<double> alone = losses("--mesh data=2 --sync gossip");
  expect_same(alone, losses("--mesh data=2,tensor=2 --sync gossip"), "tensor");
  expect_same(alone, losses("--mesh pipe=2,data=2 --microbatches 3 --sync gossip"), "pipe");
}

TEST_F(TrainSync, RejectsBadInputInOneLine) {
  for (const RefusedCase& one : std::initializer_list<RefusedCase>{
           {"-n 2 --sync spiral", "--sync: unknown strategy 'spiral'; use allreduce, tree"},
           {"--sync gossip", "several workers along the mesh's data axis"},
           {"-n 2 --sync gossip --zero 1", "which --zero 1 would shard along data"},
           {"-n 2 --sync local=4 --compress sign", "--compress works on all-reduced gradients"},
           {"-n 4 --sync local=4", "--batch is 6; use a multiple of 4"},
           {"-n 2 --sync group=3", "there are only 2 workers"},
           {"--mesh data=2,tensor=2 --sync tree", "a worker is one device"},
           {"--mesh data=2,tensor=2 --sync hogwild", "a worker is one thread"},
           {"-n 2 --sync gossip --dtype f64", "exchanges f32 models"},
           {"-n 2 --sync tree --dtype bf16", "exchanges f32 gradients"},
           {"--mesh data=2,tensor=2 --sync ps:bsp", "a worker is one device"},
           {"-n 2 --sync ps:async --zero 1", "which --zero 1 would shard along data"},
           {"-n 2 --sync ps:bsp --microbatches 3", "does not accumulate gradients"},
           {"-n 2 --sync ps:bsp --dtype f16", "exchanges f32 gradients"},
           {"-n 2 --sync ps:bsp,pool", "there is nothing to hand out"},
           {"-n 2 --sync ps:bsp --ps-servers 1 --ps-replicas 2", "--ps-replicas is 2"},
           {"-n 2 --sync ps:bsp --ps 127.0.0.1:7000", "set TRIREME_PS_SECRET"},
       }) {
    expect_refused(one.arguments, one.words);
  }
}

TEST_F(TrainSync, KilledWorkerEndsAllWithoutServers) {
  const std::unique_ptr<Started> started = start(new_run(), "-n 3 --sync gossip");
  const std::vector<pid_t> ranks = started->ranks();
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks[2], SIGKILL);
  const Ran ran = started->wait(kAMinute);
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_NE(ran.err.find("rank 2 was killed by SIGKILL (Killed)"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("rank 0: "), std::string::npos) << ran.err;
  EXPECT_TRUE(std::ranges::none_of(ranks, is_alive)) << ran.err;
}

/// Kills one of the processes, waits for 200 more steps, and interrupts the run. Returns its standard error.
std::string expect_to_survive(Started& started, pid_t victim, const std::string& run) {
  const auto steps = [&] {
    const std::string metrics = read_text(run + "/metrics.jsonl");
    return std::ranges::count(metrics, '\n');
  };
  const std::vector<pid_t> all = started.ranks();
  kill(victim, SIGKILL);
  const auto before = steps();
  EXPECT_TRUE(becomes_true([&] { return steps() > before + 200; }, kAMinute));
  kill(started.process(), SIGINT);
  const Ran ran = started.wait(kAMinute);
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_TRUE(std::ranges::none_of(all, is_alive)) << ran.err;
  return ran.err;
}

TEST_F(TrainSync, ContinuesWhenServerIsKilled) {
  const std::string run = new_run();
  const std::unique_ptr<Started> started =
      start(run, "-n 2 --sync ps:bsp --ps-servers 2 --ps-replicas 2 --ps-lease 1s");
  const std::vector<pid_t> processes = started->ranks();
  ASSERT_EQ(processes.size(), 5U);  // the coordinator, two servers, two workers
  expect_to_survive(*started, processes[1], run);
}

TEST_F(TrainSync, ContinuesWhenWorkerIsKilled) {
  const std::string run = new_run();
  const std::unique_ptr<Started> started = start(run, "-n 3 --sync ps:ssp=3");
  const std::vector<pid_t> processes = started->ranks();
  ASSERT_GE(processes.size(), 3U);  // the workers are started last
  const std::string error = expect_to_survive(*started, processes.back(), run);
  EXPECT_NE(error.find("worker 2 died: the run continues after step"), std::string::npos) << error;
}

TEST_F(TrainSync, InterruptSavesWithProcessesAndThreads) {
  for (const char* sync : {"local=4", "hogwild", "ps:ssp=2", "ps:async,pool"}) {
    const std::string run = new_run();
    const std::unique_ptr<Started> started = start(run, fmt::format("-n 2 --sync {}", sync));
    kill(started->process(), SIGINT);
    const Ran ran = started->wait(kAMinute);
    EXPECT_EQ(ran.exit_code, 130) << sync << ": " << ran.err;
    EXPECT_NE(ran.out.find("Stopped after"), std::string::npos) << ran.out;
    EXPECT_TRUE(std::filesystem::exists(run + "/checkpoints/latest")) << sync;
  }
}

TEST_F(TrainSync, ResumesWithItsOwnStrategyOrOnOneDevice) {
  const std::string run = new_run();
  ASSERT_EQ(run_program(kSmall + "--steps 3 -n 2 --sync local=2 --run-folder " + run).exit_code, 0);
  EXPECT_EQ(resumed(run, "-n 2 --steps 4").size(), 1U);
  EXPECT_EQ(Json::parse(read_text(run + "/settings.json")).at("sync"), "local=2");
  EXPECT_EQ(resumed(run, "--sync allreduce --steps 5").size(), 1U);
}

TEST_F(Straggler, ComparesStrategiesWithSameSlowWorker) {
  const std::string svg = folder_ / "plot.svg";
  const Ran ran = run_program(
      "straggler --workers 2 --slow 1x4 --compute 10ms --steps 12 --batch 4 --strategies "
      "allreduce,group=2,global=3,hogwild,ps:ssp=2,pool --json --run-folder " +
      new_run() + " --svg " + svg);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json scenario = Json::parse(ran.out).at("scenarios").at(0);
  EXPECT_EQ(scenario.at("scenario"), "permanent");
  const Json& runs = scenario.at("strategies");
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[1].at("strategy"), "group=2,global=3");
  EXPECT_EQ(runs[3].at("strategy"), "ps:ssp=2,pool");
  EXPECT_EQ(runs[0].at("speed_up"), 1.0);
  for (const Json& run : runs) {
    EXPECT_EQ(run.at("curve").size(), 12U);
    EXPECT_LE(run.at("seconds_to_loss"), run.at("seconds"));
  }
  // With fixed shares the slow worker does all 12 steps, and waits 4 times 10 ms before each.
  EXPECT_GE(runs[0].at("seconds").get<double>(), 12 * 0.04);
  EXPECT_GE(runs[1].at("seconds").get<double>(), 12 * 0.04);
  EXPECT_NE(read_text(svg).find("data-name=\"hogwild\""), std::string::npos);
}

TEST_F(Straggler, RejectsInvalidOptions) {
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {"--slow 5x2", "--slow: 5 is not a number of workers from 0 to 4"},
           {"--strategies gossip,spiral", "--strategies: unknown strategy 'spiral'"},
           {"--strategies ps:bsp,pool", "there is nothing to hand out"},
           {"--workers 1", "--workers is 1; it must be 2 or more"},
           {"--compute 0s", "--compute is 0 s"}}) {
    const Ran ran = run_program("straggler " + options);
    EXPECT_EQ(ran.exit_code, 2) << options << ": " << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << options << ": " << ran.err;
  }
}

}  // namespace
}  // namespace trireme
