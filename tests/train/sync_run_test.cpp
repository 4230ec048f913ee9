// Training runs whose workers have models of their own: they reach the loss of all-reduce, and resume.
#include <atomic>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/curves.h"
#include "train/run_all.h"
#include "train/sync/make_strategy.h"
#include "trireme/comm.h"
#include "trireme/train.h"

namespace trireme {
namespace {

/// A small run on threads.
RunOptions small_run(const std::string& sync, const std::string& folder, int workers = 2) {
  RunOptions options;
  options.settings.model = "gpt-nano";
  options.settings.batch = 8;
  options.settings.length = 32;
  options.settings.rate = "constant:0.003";
  options.settings.sync = sync;
  options.settings.steps = 60;
  options.plan.mesh = parse_mesh(fmt::format("data={}", workers));
  options.rank_kind = RankKind::Threads;
  options.make_device = cpu_devices(1);
  options.run_folder = folder;
  return options;
}

class SyncRun : public ::testing::Test {
 protected:
  std::string new_run() { return folder_ / fmt::format("run-{}", ++runs_); }
  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(SyncRun, EveryStrategyReachesAllReduceLoss) {
  constexpr int kWorkers = 4;
  const Ran together = run_all(small_run("allreduce", new_run(), kWorkers));
  EXPECT_FALSE(together.steps.at(1).sync.has_value());
  for (const char* sync : {"tree", "gossip", "group=2,global=4", "local=4", "hogwild"}) {
    SCOPED_TRACE(sync);
    const Ran ran = run_all(small_run(sync, new_run(), kWorkers));
    ASSERT_EQ(ran.steps.size(), 60U);
    EXPECT_EQ(ran.summary.step, 60);
    EXPECT_NEAR(*ran.summary.loss / *together.summary.loss, 1, 0.1);
    EXPECT_NEAR(*ran.summary.validation / *together.summary.validation, 1, 0.1);
    EXPECT_TRUE(ran.steps.at(60).sync.has_value());
    EXPECT_LT(ran.steps.at(60).sync->spread, 0.2);
    for (const auto& [step, report] : together.steps) {
      EXPECT_FLOAT_EQ(static_cast<float>(ran.steps.at(step).rate), static_cast<float>(report.rate));
      if (sync == std::string("tree")) {
        EXPECT_NEAR(ran.steps.at(step).loss, report.loss, 1e-3 * report.loss) << step;
      }
    }
  }
}

TEST_F(SyncRun, ResumesBitForBit) {
  for (const char* sync : {"tree", "gossip", "local=2", "ps:bsp", "ps:ssp=0"}) {
    SCOPED_TRACE(sync);
    RunOptions whole = small_run(sync, new_run());
    whole.settings.steps = 6;
    whole.settings.save_every = "3";
    const Ran all = run_all(whole);

    RunOptions half = small_run(sync, new_run());
    half.settings.steps = 3;
    (void)run_all(half);
    RunOptions rest = small_run(sync, "");
    rest.settings.steps = 6;
    rest.resume = half.run_folder;
    const Ran resumed = run_all(rest);
    ASSERT_EQ(resumed.steps.size(), 3U);
    for (const auto& [step, report] : resumed.steps) {
      EXPECT_EQ(report.loss, all.steps.at(step).loss) << step;
    }
    EXPECT_EQ(resumed.summary.validation, all.summary.validation);
  }
}

TEST_F(SyncRun, ResumesUnderAnotherStrategy) {
  RunOptions first = small_run("hogwild", new_run());
  first.settings.steps = 20;
  const Ran before = run_all(first);
  std::int64_t steps = 20;
  for (const char* sync : {"hogwild", "allreduce", "gossip", "ps:essp=2", "tree"}) {
    RunOptions next = small_run(sync, "");
    next.settings.steps = ++steps;
    next.resume = first.run_folder;
    const Ran after = run_all(next);
    EXPECT_LT(after.steps.begin()->second.loss, before.steps.at(1).loss - 0.2) << sync;
  }
}

TEST_F(SyncRun, ValidatesAverageWithoutChangingRun) {
  RunOptions options = small_run("local=4", new_run());
  options.settings.steps = 8;
  const Ran without = run_all(options);
  options.run_folder = new_run();
  options.settings.validate_every = 3;  // not a step at which models are averaged
  const Ran with = run_all(options);
  EXPECT_TRUE(with.steps.at(3).validation.has_value());
  EXPECT_FALSE(with.steps.at(4).validation.has_value());
  for (const auto& [step, report] : without.steps) {
    EXPECT_EQ(with.steps.at(step).loss, report.loss) << step;
  }
}

TEST_F(SyncRun, AllWorkersStopAtSameStep) {
  for (const char* sync : {"tree", "local=4", "hogwild", "ps:bsp", "ps:ssp=3,pool"}) {
    SCOPED_TRACE(sync);
    RunOptions options = small_run(sync, new_run());
    options.settings.steps = 100'000;
    std::atomic<bool> stop{false};
    options.should_stop = [&] { return stop.load(); };
    std::int64_t reported = 0;
    options.observer.step = [&](const RunFacts&, const StepReport& report) {
      reported = report.step;
      stop = report.step >= 5;
    };
    RunSummary summary;
    options.observer.end = [&](const RunFacts&, const RunSummary& end) { summary = end; };
    run_ranks(options, [](TrainingRun& run) { run.train(); });
    EXPECT_TRUE(summary.interrupted);
    EXPECT_EQ(reported, summary.step);
    EXPECT_LT(summary.step, 100'000);
  }
}

TEST_F(SyncRun, SlowWorkerFallsBehindOnlyWithoutBarriers) {
  const auto staleness = [&](const std::string& sync) {
    RunOptions options = small_run(sync, new_run());
    options.settings.steps = 12;
    options.delay = [](int worker, std::int64_t) { return Seconds{worker == 1 ? 0.02 : 0.0}; };
    std::int64_t most = 0;
    for (const auto& [step, report] : run_all(options).steps) {
      most = std::max(most, report.sync->staleness);
    }
    return most;
  };
  EXPECT_LE(staleness("tree"), 2);
  EXPECT_GE(staleness("local=12"), 3);
}

TEST_F(SyncRun, NonFiniteLossEndsRunOnAllWorkers) {
  RunOptions options = small_run("local=4", new_run());
  options.settings.rate = "constant:1e30";
  options.settings.clip = 0;
  expect_error(ErrorKind::Input, "step ", [&] { (void)run_all(options); });
}

}  // namespace

namespace train {
namespace {

constexpr int kShareWorkers = 2;
constexpr std::int64_t kSequences = 4;

TrainerOptions sgd_options(const ModelConfig& config) {
  TrainerOptions options;
  options.model = config;
  options.batch = {.sequences = kSequences, .length = kCurveBatch.length};
  options.rate.peak = 0.1;
  options.training.optimizer = Sgd{};
  return options;
}

/// The mean losses of two workers whose steps are plain SGD.
std::vector<double> losses_of(const std::string& sync, int steps) {
  const ModelConfig config = small_language_model("gpt-nano");
  const SyncSpec spec = parse_sync(sync);
  const RunServers servers;
  std::vector<double> losses(static_cast<std::size_t>(steps));
  run_threads(kShareWorkers, [&](World& world) {
    const auto device = make_cpu_device({.threads = 1, .pinned = false});
    TrainerOptions options = sgd_options(config);
    std::optional<Communicator> communicator;
    if (has_replicas(spec)) {
      options.batch.sequences /= kShareWorkers;
    } else {
      options.plan.mesh = parse_mesh("data=2");
      communicator.emplace(world, options.plan.mesh);
    }
    Trainer trainer(options, *device, communicator ? &*communicator : nullptr);
    std::unique_ptr<SyncStrategy> strategy;
    if (has_replicas(spec)) {
      strategy = make_sync_strategy(
          spec,
          {.trainer = trainer, .workers = world.all(), .all = world.all(), .servers = servers});
    }
    const std::unique_ptr<Batches> data = curve_data(config);
    std::vector<std::byte> inputs(static_cast<std::size_t>(trainer.input_bytes().count));
    std::vector<std::byte> targets(static_cast<std::size_t>(trainer.target_bytes().count));
    for (int step = 0; step < steps; ++step) {
      const std::int64_t share = strategy ? world.rank() * options.batch.sequences : 0;
      data->fill(data->advance({}, step * kSequences + share), {inputs, targets});
      double loss = strategy ? strategy->run_step(inputs, targets, nullptr).loss
                             : trainer.run_step(inputs, targets).loss;
      if (strategy) {
        (void)strategy->mix(step + 1);
        world.all().run(allreduce<double>(std::span(&loss, 1)));
        loss /= kShareWorkers;
      }
      if (world.rank() == 0) {
        losses[static_cast<std::size_t>(step)] = loss;
      }
    }
  });
  return losses;
}

TEST(LocalSteps, AveragingAfterEverySgdStepMatchesAllReduce) {
  const std::vector<double> together = losses_of("allreduce", 30);
  const std::vector<double> local = losses_of("local=1", 30);
  const std::vector<double> rarely = losses_of("local=30", 30);
  for (std::size_t step = 0; step < together.size(); ++step) {
    EXPECT_NEAR(local[step], together[step], 1e-5 * together[step]) << step;
  }
  EXPECT_GT(std::abs(rarely.back() - together.back()), 1e-4 * together.back());
}

}  // namespace
}  // namespace train
}  // namespace trireme
