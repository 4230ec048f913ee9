// Training with compressed gradients: it converges, thanks to the residual, and checkpoints preserve the residual.
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/checkpoint/carried.h"
#include "train/curves.h"
#include "trireme/comm.h"
#include "trireme/partition.h"

namespace trireme::train {
namespace {

struct RankRun {
  std::string mesh = "data=2";
  std::string compression = "none";
  int steps = kCurveSteps;
  /// Uses SGD: AdamW compensates for small gradients and would hide what is missing.
  bool sgd = false;
  /// Clears the residual before each step.
  bool forget = false;
  std::string resume{};  ///< a folder of checkpoints
  std::string save{};    ///< the same
};

Plan plan_of(const RankRun& run) {
  Plan plan;
  plan.mesh = parse_mesh(run.mesh);
  plan.compression = parse_compression(run.compression);
  return plan;
}

TrainerOptions curve_options(const ModelConfig& config, bool sgd) {
  TrainerOptions options;
  options.model = config;
  options.batch = {.sequences = 12, .length = kCurveBatch.length};
  options.rate.peak = sgd ? 0.3 : 3e-3;
  options.training.clip_limit = 1.0;
  if (sgd) {
    options.training.optimizer = Sgd{};
  }
  return options;
}

void forget_residuals(Trainer& trainer) {
  for (const ValueId id : trainer.graph().with_origin(Origin::State)) {
    const Value& state = trainer.graph().value(id);
    if (is_carried(state.name)) {
      ModelParameter place;
      place.name = state.name;
      place.type = state.type;
      trainer.write(place, carried_over(state, nullptr));
    }
  }
}

void save_to(Trainer& trainer, bool leads, const std::string& folder, DataPosition at) {
  if (!leads) {
    trainer.give_state();
    return;
  }
  (void)save_checkpoint(folder, trainer.state({.step = 0, .seed = 0, .data = at, .config = "{}"}));
}

/// The losses of a run whose ranks are threads.
std::vector<double> losses_of(const RankRun& run) {
  const ModelConfig config = small_language_model("gpt-nano");
  const Plan plan = plan_of(run);
  std::vector<double> losses;
  run_threads(plan.mesh.devices(), [&](World& world) {
    Communicator communicator(world, plan.mesh);
    const auto device = make_cpu_device({.threads = 1, .pinned = false});
    TrainerOptions options = curve_options(config, run.sgd);
    options.plan = plan;
    Trainer trainer(options, *device, &communicator);
    const std::unique_ptr<Batches> data = curve_data(config);
    std::vector<std::byte> inputs(static_cast<std::size_t>(trainer.input_bytes().count));
    std::vector<std::byte> targets(static_cast<std::size_t>(trainer.target_bytes().count));
    DataPosition at{};
    if (!run.resume.empty()) {
      const auto loaded = load_latest(run.resume);
      ASSERT_TRUE(loaded.has_value());
      trainer.restore(loaded->checkpoint);
      at = loaded->checkpoint.info.data;
    }
    for (int step = 0; step < run.steps; ++step) {
      if (run.forget) {
        forget_residuals(trainer);
      }
      data->fill(at, {inputs, targets});
      at = data->advance(at, options.batch.sequences);
      const StepResult result = trainer.run_step(inputs, targets);
      if (world.rank() == 0) {
        losses.push_back(result.loss);
      }
    }
    if (!run.save.empty()) {
      save_to(trainer, world.rank() == 0, run.save, at);
    }
  });
  return losses;
}

double last_loss(const std::vector<double>& losses) {
  constexpr int kLast = 20;
  return std::accumulate(losses.end() - kLast, losses.end(), 0.0) / kLast;
}

TEST(CompressedTraining, Learns) {
  const double plain = last_loss(losses_of({}));
  for (const char* method : {"top-k:0.05", "sign", "ternary", "int8", "fp16", "power:2"}) {
    const double loss = last_loss(losses_of({.compression = method}));
    EXPECT_LT(loss, 1.1 * plain) << method;
    EXPECT_GT(loss, 0.95 * plain) << method;
  }
}

TEST(CompressedTraining, LearnsLessWithoutResidual) {
  const double plain = last_loss(losses_of({.sgd = true}));
  RankRun run{.compression = "top-k:0.01", .sgd = true};
  const double with = last_loss(losses_of(run));
  run.forget = true;
  const double without = last_loss(losses_of(run));
  EXPECT_NEAR(with, plain, 0.01 * plain);
  EXPECT_GT(without, 1.02 * plain);
}

/// Each residual, summed over ranks.
std::map<std::string, std::vector<double>> residuals_in(const std::string& folder) {
  std::map<std::string, std::vector<double>> sums;
  const auto loaded = load_latest(folder);
  const SafetensorsFile& file = *loaded->checkpoint.optimizer;
  for (const TensorView& tensor : file.tensors()) {
    if (!tensor.spec.name.starts_with(kResidual)) {
      continue;
    }
    const auto count = static_cast<std::size_t>(tensor.spec.shape.element_count());
    std::vector<double>& sum = sums[tensor.spec.name];
    sum.resize(count / static_cast<std::size_t>(tensor.spec.shape.dim(0)));
    for (std::size_t i = 0; i < count; ++i) {
      float element = 0;
      std::memcpy(&element, tensor.bytes.data() + i * sizeof(float), sizeof(float));
      sum[i % sum.size()] += element;
    }
  }
  return sums;
}

TEST(CompressedTraining, ResumesBitForBit) {
  for (const char* method : {"top-k:0.05", "sign", "power:2"}) {
    SCOPED_TRACE(method);
    const TemporaryFolder folder;
    const std::vector<double> all = losses_of({.compression = method, .steps = 8});
    (void)losses_of({.compression = method, .steps = 5, .save = folder.path()});
    const std::vector<double> rest =
        losses_of({.compression = method, .steps = 3, .resume = folder.path()});
    EXPECT_EQ(rest, std::vector<double>(all.begin() + 5, all.end()));
  }
}

// The residual is not lost: its sum is the same under another mesh.
TEST(CompressedTraining, ResumesUnderAnyMesh) {
  const TemporaryFolder folder;
  (void)losses_of({.compression = "sign", .steps = 5, .save = folder / "two"});
  const auto before = residuals_in(folder / "two");
  EXPECT_EQ(before.size(), 12U);
  for (const char* mesh : {"data=2", "data=3", "tensor=2,data=2", "pipe=2,data=2"}) {
    SCOPED_TRACE(mesh);
    const std::string again = folder / std::string(mesh).append("-again");
    EXPECT_TRUE(losses_of({.mesh = mesh,
                           .compression = "sign",
                           .steps = 0,
                           .resume = folder / "two",
                           .save = again})
                    .empty());
    const auto after = residuals_in(again);
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, sum] : before) {
      for (std::size_t i = 0; i < sum.size(); ++i) {
        ASSERT_NEAR(after.at(name)[i], sum[i], 1e-6) << name << " at " << i;
      }
    }
    EXPECT_LT(losses_of({.mesh = mesh, .compression = "sign", .steps = 2, .resume = again}).back(),
              std::log(16));
  }
}

TEST(CompressedTraining, CanStartAndStopMidRun) {
  const TemporaryFolder folder;
  (void)losses_of({.steps = 3, .save = folder / "plain"});
  const std::vector<double> plain = losses_of({.steps = 1, .resume = folder / "plain"});
  const std::vector<double> begun = losses_of({.compression = "power:3",
                                               .steps = 2,
                                               .resume = folder / "plain",
                                               .save = folder / "compressed"});
  EXPECT_EQ(plain[0], begun[0]);
  const std::vector<double> other =
      losses_of({.compression = "top-k:0.1", .steps = 1, .resume = folder / "compressed"});
  const std::vector<double> ended = losses_of({.steps = 1, .resume = folder / "compressed"});
  EXPECT_EQ(other, ended);
}

}  // namespace
}  // namespace trireme::train
