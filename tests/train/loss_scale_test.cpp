// Training in f16: the loss scale adapts, and a step that overflowed has no effect.
#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/curves.h"
#include "trireme/comm.h"
#include "trireme/communicator.h"

namespace trireme::train {
namespace {

using Bytestring = std::vector<std::byte>;

/// A small GPT in f16 with data, run step by step.
class Half {
 public:
  explicit Half(const LossScaling& scaling)
      : device_(make_cpu_device({.threads = 1})), trainer_(options(scaling), *device_) {
    const ModelConfig config = small_language_model("gpt-nano");
    data_ = curve_data(config);
    inputs_.resize(static_cast<std::size_t>(trainer_.input_bytes().count));
    targets_.resize(static_cast<std::size_t>(trainer_.target_bytes().count));
  }

  /// Uses the same batch until the step succeeds.
  StepResult step() {
    data_->fill(at_, {inputs_, targets_});
    const StepResult result = trainer_.run_step(inputs_, targets_);
    if (result.finite) {
      at_ = data_->advance(at_, kCurveBatch.sequences);
    }
    return result;
  }
  StepResult step_until_taken() {
    StepResult result = step();
    while (result.overflowed) {
      result = step();
    }
    return result;
  }

  /// All parameters and the optimizer's state, concatenated.
  Bytestring everything() {
    CheckpointState state = trainer_.state({});
    Bytestring all;
    for (TensorSet* set : {&state.model, &*state.optimizer}) {
      for (std::size_t i = 0; i < set->specs.size(); ++i) {
        const std::string& name = set->specs[i].name;
        const std::span<const std::byte> bytes = set->read(i);
        if (name != "loss_scale" && name != "good_steps") {
          all.insert(all.end(), bytes.begin(), bytes.end());
        }
      }
    }
    return all;
  }
  void save(const std::string& folder) {
    CheckpointInfo info;
    info.data = at_;
    (void)save_checkpoint(folder, trainer_.state(info));
  }
  void go_on_from(const std::string& folder) {
    const Checkpoint checkpoint = load_latest(folder).value().checkpoint;
    trainer_.restore(checkpoint);
    at_ = checkpoint.info.data;
  }
  Trainer& trainer() { return trainer_; }

 private:
  static TrainerOptions options(const LossScaling& scaling) {
    TrainerOptions options;
    ModelConfig config = small_language_model("gpt-nano");
    config.dtype = DType::F16;
    options.model = config;
    options.batch = kCurveBatch;
    options.rate.peak = 3e-3;
    options.training.clip_limit = 1.0;
    options.training.loss_scaling = scaling;
    return options;
  }

  std::unique_ptr<Device> device_;
  Trainer trainer_;
  std::unique_ptr<Batches> data_;
  DataPosition at_{};
  Bytestring inputs_;
  Bytestring targets_;
};

TEST(LossScale, OverflowChangesOnlyScale) {
  constexpr double kFar = 0x1p40;
  Half half({.initial = kFar});
  const Bytestring before = half.everything();
  const StepResult first = half.step();
  EXPECT_FALSE(first.finite);
  EXPECT_TRUE(first.overflowed);
  EXPECT_TRUE(std::isfinite(first.loss));
  EXPECT_EQ(first.loss_scale, kFar / 2);
  EXPECT_EQ(half.trainer().step(), 0);
  EXPECT_EQ(half.everything(), before);
  // Once a scale fits, the state is the same as if it had been the initial one.
  const StepResult taken = half.step_until_taken();
  ASSERT_TRUE(taken.finite);
  EXPECT_EQ(taken.step, 1);
  EXPECT_NE(half.everything(), before);
  Half direct({.initial = *taken.loss_scale});
  EXPECT_EQ(direct.step().loss, taken.loss);
  EXPECT_EQ(direct.everything(), half.everything());
}

/// Starting at twice the largest scale that fits skips exactly one step and its update.
TEST(LossScale, SkipsExactlyOneUpdate) {
  Half search({.initial = 0x1p40});
  const double fits = *search.step_until_taken().loss_scale;
  Half half({.initial = 2 * fits});
  EXPECT_TRUE(half.step().overflowed);
  EXPECT_TRUE(half.step().finite);
  EXPECT_TRUE(half.step().finite);
  Half other({.initial = fits});
  (void)other.step();
  (void)other.step();
  EXPECT_EQ(half.everything(), other.everything());
  EXPECT_EQ(half.trainer().step(), 2);
}

TEST(LossScale, GrowsAfterGoodSteps) {
  Half half({.initial = 8, .interval = 3, .max = 32});
  std::vector<double> scales;
  for (int step = 0; step < 10; ++step) {
    const StepResult result = half.step();
    ASSERT_TRUE(result.finite);
    scales.push_back(result.loss_scale.value());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 16, 16, 16, 32, 32, 32, 32, 32}));
}

/// Infinite weights do not change the scale, and the first node affected is found.
TEST(LossScale, NaNLossIsNotOverflow) {
  Half half({.initial = 1024});
  (void)half.step();
  const ModelParameter parameter = half.trainer().model().parameters.front();
  std::vector<Float16> elements(static_cast<std::size_t>(parameter.type.shape.element_count()),
                                to_f16(std::numeric_limits<float>::infinity()));
  half.trainer().write(parameter, std::as_bytes(std::span(elements)));
  const StepResult result = half.step();
  EXPECT_FALSE(result.finite);
  EXPECT_FALSE(result.overflowed);
  EXPECT_EQ(result.loss_scale, 1024);
  const std::optional<NonFinite> found = half.trainer().find_non_finite();
  ASSERT_TRUE(found);
  EXPECT_NE(to_text(*found, half.trainer().program()).find(parameter.name), std::string::npos);
}

/// At the minimum scale, an overflow is the model's own.
TEST(LossScale, StopsAtMinimum) {
  Half half({.initial = 0x1p40, .min = 0x1p38, .max = 0x1p40});
  EXPECT_TRUE(half.step().overflowed);
  EXPECT_TRUE(half.step().overflowed);
  const StepResult last = half.step();
  EXPECT_FALSE(last.finite);
  EXPECT_FALSE(last.overflowed);
  EXPECT_EQ(last.loss_scale, 0x1p38);
}

TEST(LossScale, ResumesBitForBit) {
  const LossScaling scaling{.initial = 0x1p20, .interval = 4};
  Half whole(scaling);
  Half begun(scaling);
  for (int step = 0; step < 5; ++step) {
    (void)whole.step_until_taken();
    (void)begun.step_until_taken();
  }
  const TemporaryFolder folder;
  begun.save(folder / "checkpoints");
  Half resumed({.initial = 4, .interval = 4});
  resumed.go_on_from(folder / "checkpoints");
  for (int step = 0; step < 6; ++step) {
    const StepResult a = resumed.step_until_taken();
    const StepResult b = whole.step_until_taken();
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.loss_scale, b.loss_scale);
  }
}

// Several ranks: an f16 perceptron with half the batch on each rank. Examples in the second half are so large that
// their gradients overflow.

constexpr std::int64_t kExamples = 32;
constexpr std::array<float, 3> kSizes{1, 200, 1};  ///< of the second half, by step

TrainerOptions perceptron() {
  TrainerOptions options;
  options.model = MlpConfig{.hidden = {16}, .dtype = DType::F16};
  options.batch.sequences = kExamples;
  options.rate.peak = 1e-2;
  options.training.loss_scaling = LossScaling{.initial = 1024};
  return options;
}

/// Three attempts, the second with large examples.
std::vector<StepResult> three_steps(const Plan& plan, Communicator* communicator) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1, .pinned = false});
  TrainerOptions options = perceptron();
  options.plan = plan;
  Trainer trainer(options, *device, communicator);
  std::vector<StepResult> results;
  for (const float size : kSizes) {
    std::vector<float> x(static_cast<std::size_t>(trainer.input_bytes().count) / sizeof(float));
    std::vector<float> targets(static_cast<std::size_t>(trainer.target_bytes().count) /
                               sizeof(float));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
      x[i] *= i < x.size() / 2 ? 1 : size;
    }
    results.push_back(
        trainer.run_step(std::as_bytes(std::span(x)), std::as_bytes(std::span(targets))));
  }
  return results;
}

TEST(LossScale, AllRanksSkipStepThatOverflowedOnOneRank) {
  const std::vector<StepResult> alone = three_steps({}, nullptr);
  EXPECT_EQ(alone[0].overflowed, false);
  ASSERT_EQ(alone[1].overflowed, true);
  EXPECT_EQ(alone[2].overflowed, false);
  for (const int zero : {0, 1, 3}) {
    Plan plan;
    plan.mesh = Mesh({{"data", 2}});
    plan.zero = zero;
    std::array<std::vector<StepResult>, 2> by_rank;
    run_threads(2, [&](World& world) {
      Communicator communicator(world, plan.mesh);
      by_rank.at(static_cast<std::size_t>(world.rank())) = three_steps(plan, &communicator);
    });
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      for (const std::vector<StepResult>& results : by_rank) {
        EXPECT_EQ(results[i].finite, alone[i].finite) << "ZeRO " << zero << ", step " << i;
        EXPECT_EQ(results[i].overflowed, alone[i].overflowed);
        EXPECT_EQ(results[i].loss_scale, alone[i].loss_scale);
        EXPECT_EQ(results[i].step, alone[i].step);
        EXPECT_EQ(results[i].loss, by_rank[0][i].loss);
        EXPECT_NEAR(results[i].loss, alone[i].loss, 1e-3 * alone[i].loss);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::train
