// Weights that come from a file are those of rank 0: what other ranks would read does not matter.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/run_all.h"
#include "trireme/comm.h"
#include "trireme/cpu_device.h"
#include "trireme/train.h"

namespace trireme {
namespace {

constexpr int kBroadcastSteps = 3;

class InitialBroadcast : public ::testing::Test {
 protected:
  [[nodiscard]] RunOptions options(const std::string& model, const std::string& run) const {
    RunOptions options;
    options.settings.model = model;
    options.settings.batch = 4;
    options.settings.length = 16;
    options.settings.steps = kBroadcastSteps;
    options.settings.rate = "constant:0.003";
    options.make_device = cpu_devices(1);
    options.run_folder = folder_ / run;
    return options;
  }
  /// Trains a model from this seed for a few steps; returns the folder that it is exported to.
  [[nodiscard]] std::string exported_model(std::uint64_t seed) const {
    const std::string name = "model-" + std::to_string(seed);
    RunOptions training = options("gpt-nano", "run-of-" + name);
    training.settings.seed = seed;
    training.export_folder = folder_ / name;
    (void)run_all(training);
    return training.export_folder;
  }

  TemporaryFolder folder_;
};

TEST_F(InitialBroadcast, GivesEveryRankWeightsOfRankZero) {
  const std::string model = exported_model(1);
  const std::string other = exported_model(2);
  const Ran alone = run_all(options(model, "alone"));
  const Ran from_other = run_all(options(other, "other"));
  ASSERT_GT(std::abs(alone.losses.at(1) - from_other.losses.at(1)), 1e-3);

  std::map<std::int64_t, double> losses;
  run_threads(2, [&](World& world) {
    RunOptions own = options(world.rank() == 0 ? model : other, "ranks");
    own.plan.mesh = parse_mesh("data=2");
    if (world.rank() == 0) {
      own.observer.step = [&](const RunFacts&, const StepReport& report) {
        losses[report.step] = report.loss;
      };
    }
    run_rank(own, world, [](TrainingRun& run) { (void)run.train(); });
  });
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(kBroadcastSteps));
  for (const auto& [step, loss] : losses) {
    EXPECT_NEAR(loss, alone.losses.at(step), 1e-5) << step;
  }
}

}  // namespace
}  // namespace trireme
