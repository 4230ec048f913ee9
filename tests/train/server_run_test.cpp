// Training runs on parameter servers: the same losses as one device, with failures and stragglers.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "trireme/cpu_device.h"
#include "trireme/files.h"
#include "trireme/local_servers.h"
#include "trireme/run_record.h"
#include "trireme/train.h"

namespace trireme {
namespace {

RunOptions server_run(const std::string& sync, const std::string& folder, int workers = 2) {
  RunOptions options;
  options.settings.model = "gpt-nano";
  options.settings.batch = 8;
  options.settings.length = 32;
  options.settings.rate = "constant:0.003";
  options.settings.clip = 0;  // on servers, each worker's gradient is clipped by itself
  options.settings.sync = sync;
  options.settings.steps = 12;
  options.plan.mesh = parse_mesh(fmt::format("data={}", workers));
  options.rank_kind = RankKind::Threads;
  options.make_device = cpu_devices(1);
  options.run_folder = folder;
  return options;
}

using Losses = std::map<std::int64_t, double>;

Losses losses_of(RunOptions options) {
  Losses losses;
  options.observer.step = [&](const RunFacts&, const StepReport& report) {
    losses[report.step] = report.loss;
    ASSERT_TRUE(report.sync && report.sync->clocks);
    EXPECT_LE(report.sync->clocks->slowest, report.sync->clocks->fastest);
    EXPECT_EQ(report.sync->clocks->fastest, report.step - 1);
  };
  run_ranks(std::move(options), [](TrainingRun& run) { run.train(); });
  return losses;
}

class ServerRun : public ::testing::Test {
 protected:
  std::string new_run() { return folder_ / fmt::format("run-{}", ++runs_); }
  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(ServerRun, BspIsIndependentOfTimingAndServerCount) {
  RunOptions options = server_run("ps:bsp", new_run(), 4);
  const Losses losses = losses_of(options);
  ASSERT_EQ(losses.size(), 12U);
  EXPECT_LT(losses.at(12), losses.at(1));
  options.run_folder = new_run();
  options.delay = [](int worker, std::int64_t step) {
    return Seconds{(worker + step) % 3 == 0 ? 0.01 : 0.0};
  };
  EXPECT_EQ(losses_of(options), losses);
  options.run_folder = new_run();
  options.servers = {.count = 1};
  EXPECT_EQ(losses_of(options), losses);
  options.run_folder = new_run();
  options.settings.sync = "ps:ssp=0";
  options.servers = {.count = 3, .replicas = 2};
  EXPECT_EQ(losses_of(options), losses);
}

/// Summaries of runs that differ in nothing but their strategy.
RunSummary summary_of(RunOptions options) {
  RunSummary summary;
  options.observer.end = [&](const RunFacts&, const RunSummary& end) { summary = end; };
  run_ranks(std::move(options), [](TrainingRun& run) { run.train(); });
  return summary;
}

TEST_F(ServerRun, EveryStrategyReachesAllReduceLoss) {
  const auto run = [&](const std::string& sync) {
    RunOptions options = server_run(sync, new_run(), 4);
    options.settings.steps = 60;
    options.settings.rate = "constant:0.001";
    options.settings.clip = 1;
    return summary_of(options);
  };
  const RunSummary together = run("allreduce");
  for (const char* sync :
       {"ps:bsp", "ps:ssp=3", "ps:essp=3", "ps:async", "ps:async,inconsistent", "ps:ssp=3,pool"}) {
    const RunSummary apart = run(sync);
    EXPECT_EQ(apart.step, 60) << sync;
    EXPECT_NEAR(*apart.loss / *together.loss, 1, 0.1) << sync;
    EXPECT_NEAR(*apart.validation / *together.validation, 1, 0.1) << sync;
  }
}

TEST_F(ServerRun, BspLossesMatchTree) {
  RunOptions options = server_run("ps:bsp", new_run(), 3);
  options.settings.batch = 6;
  const Losses served = losses_of(options);
  options.run_folder = new_run();
  options.settings.sync = "tree";
  options.observer.step = [&](const RunFacts&, const StepReport& report) {
    EXPECT_NEAR(report.loss, served.at(report.step), 1e-5 * report.loss) << report.step;
  };
  run_ranks(options, [](TrainingRun& run) { run.train(); });
}

TEST_F(ServerRun, AsyncDependsOnTiming) {
  const auto slow = [&](int slow_worker) {
    RunOptions options = server_run("ps:async", new_run());
    options.delay = [=](int worker, std::int64_t) {
      return Seconds{worker == slow_worker ? 0.03 : 0.0};
    };
    return losses_of(options);
  };
  EXPECT_NE(slow(0), slow(1));
}

TEST_F(ServerRun, StalenessStaysWithinItsBound) {
  for (const auto& [sync, bound] :
       {std::pair("ps:ssp=2", 2), std::pair("ps:essp=3", 3), std::pair("ps:ssp=2,pool", 2)}) {
    RunOptions options = server_run(sync, new_run());
    options.settings.steps = 16;
    options.delay = [](int worker, std::int64_t) { return Seconds{worker == 1 ? 0.03 : 0.0}; };
    std::int64_t most = 0;
    options.observer.step = [&](const RunFacts&, const StepReport& report) {
      most = std::max(most, report.sync->staleness);
    };
    run_ranks(std::move(options), [](TrainingRun& run) { run.train(); });
    EXPECT_LE(most, bound) << sync;
    EXPECT_GE(most, 1) << sync;
  }
}

TEST_F(ServerRun, FastWorkerDoesMoreOfPool) {
  RunOptions options = server_run("ps:async,pool", new_run());
  options.settings.steps = 20;
  std::array<std::atomic<int>, 2> shares{};
  options.delay = [&](int worker, std::int64_t) {
    ++shares[static_cast<std::size_t>(worker)];
    return Seconds{worker == 1 ? 0.1 : 0.0};
  };
  EXPECT_EQ(losses_of(options).size(), 20U);
  EXPECT_EQ(shares[0] + shares[1], 40);
  EXPECT_GT(shares[0], shares[1]);
}

TEST_F(ServerRun, UsesRunningServers) {
  const ps::LocalServers servers({.servers = 2});
  RunOptions options = server_run("ps:bsp", new_run());
  options.servers.address = servers.coordinator();
  options.servers.secret = servers.secret();
  const Losses losses = losses_of(options);
  options.run_folder = new_run();
  EXPECT_EQ(losses_of(options), losses);  // a second run on the same servers has tables of its own
  options.run_folder = new_run();
  options.servers = {};
  EXPECT_EQ(losses_of(options), losses);
}

TEST_F(ServerRun, NonFiniteLossEndsRunOnAllWorkers) {
  for (const char* sync : {"ps:bsp", "ps:ssp=2", "ps:async,pool"}) {
    RunOptions options = server_run(sync, new_run());
    options.settings.rate = "constant:1e30";
    expect_error(ErrorKind::Input, "step ",
                 [&] { run_ranks(options, [](TrainingRun& run) { run.train(); }); });
  }
}

TEST_F(ServerRun, RejectsMismatchedServers) {
  RunOptions options = server_run("ps:bsp", new_run());
  options.servers = {.count = 2, .replicas = 3};
  EXPECT_NE(problems(options).front().find("--ps-replicas is 3"), std::string::npos);
  options.servers = {.encrypt = true};
  EXPECT_NE(problems(options).front().find("--ps-encrypt"), std::string::npos);
  options.servers = {};
  options.settings.dtype = "bf16";
  EXPECT_NE(problems(options).front().find("--dtype f32"), std::string::npos);
}

// --- Workers and servers that are processes. They are forked from a process without threads.

/// The losses in the metrics of a run.
std::vector<std::string> recorded(const std::string& folder) {
  const std::string text = read_file(folder + "/metrics.jsonl");
  std::vector<std::string> losses;
  for (std::size_t at = text.find("\"loss\":"); at != std::string::npos;
       at = text.find("\"loss\":", at + 1)) {
    losses.push_back(text.substr(at, text.find(',', at) - at));
  }
  return losses;
}

/// Runs workers as processes; `victim` kills itself when it begins its share number `at`, counted from 0.
void run_and_kill_worker(RunOptions options, int victim, std::int64_t at) {
  options.rank_kind = RankKind::Processes;
  options.servers.lease = {0.5};
  options.delay = [=](int worker, std::int64_t share) {
    if (worker == victim && share == at) {
      ::kill(::getpid(), SIGKILL);
    }
    return Seconds{0.005};
  };
  run_ranks(std::move(options), [](TrainingRun& run) { run.train(); });
}

/// Runs workers as processes on servers that are processes; kills server `victim` when the run is under way.
void run_processes(RunOptions options, int victim) {
  const ps::LocalServers servers({.servers = 2,
                                  .replicas = 2,
                                  .lease = options.servers.lease,
                                  .run = ps::LocalServersOptions::Run::Processes});
  options.rank_kind = RankKind::Processes;
  options.servers.address = servers.coordinator();
  options.servers.secret = servers.secret();
  options.observer.step = [&, pid = servers.processes().at(0)](const RunFacts&,
                                                               const StepReport& report) {
    if (report.step == 3 && victim >= 0) {
      ::kill(pid, SIGKILL);
    }
  };
  run_ranks(std::move(options), [](TrainingRun& run) { run.train(); });
}

TEST_F(ServerRun, KilledServerChangesNothing) {
  RunOptions options = server_run("ps:bsp", new_run());
  options.servers.lease = {1};
  run_processes(options, -1);
  const std::vector<std::string> calm = recorded(options.run_folder);
  ASSERT_EQ(calm.size(), 12U);
  options.run_folder = new_run();
  run_processes(options, 0);
  EXPECT_EQ(recorded(options.run_folder), calm);
}

struct Death {
  const char* sync;
  int victim;
};

class ServerRunWithDeath : public ::testing::TestWithParam<Death> {
 protected:
  TemporaryFolder folder_;
};

TEST_P(ServerRunWithDeath, Continues) {
  RunOptions options = server_run(GetParam().sync, folder_ / "run", 3);
  options.settings.batch = 6;
  options.settings.validate_every = 4;
  run_and_kill_worker(options, GetParam().victim, 5);
  const RunRecord run = read_run(options.run_folder);
  ASSERT_EQ(run.steps.size(), 12U);
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepReport& report = run.steps[i].report;
    EXPECT_EQ(report.step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(report.validation.has_value(), report.step % 4 == 0);
  }
  EXPECT_LT(run.steps[11].report.loss, run.steps[0].report.loss);
  EXPECT_TRUE(run.summary);
  EXPECT_TRUE(std::filesystem::exists(options.run_folder + "/checkpoints/latest"));
}

INSTANTIATE_TEST_SUITE_P(Workers, ServerRunWithDeath,
                         testing::Values(Death{"ps:bsp", 2}, Death{"ps:bsp", 0},
                                         Death{"ps:ssp=2", 1}, Death{"ps:ssp=2,pool", 1},
                                         Death{"ps:async", 0}));

}  // namespace
}  // namespace trireme
