// f32 master copies of 16-bit parameters: their values, their memory, and how ranks shard them.
#include <array>
#include <cstring>
#include <mutex>

#include <gtest/gtest.h>

#include "train/curves.h"
#include "trireme/comm.h"
#include "trireme/communicator.h"

namespace trireme::train {
namespace {

TrainerOptions bf16_options() {
  ModelConfig config = small_language_model("gpt-nano");
  config.dtype = DType::BF16;
  TrainerOptions options;
  options.model = config;
  options.batch = kCurveBatch;
  options.rate.peak = 3e-3;
  options.training.clip_limit = 1.0;
  return options;
}

std::vector<double> losses_of(Trainer& trainer, int steps) {
  const std::unique_ptr<Batches> data = curve_data(small_language_model("gpt-nano"));
  std::vector<std::byte> inputs(static_cast<std::size_t>(trainer.input_bytes().count));
  std::vector<std::byte> targets(static_cast<std::size_t>(trainer.target_bytes().count));
  std::vector<double> losses;
  DataPosition at{};
  for (int step = 0; step < steps; ++step) {
    data->fill(at, {inputs, targets});
    at = data->advance(at, kCurveBatch.sequences);
    losses.push_back(trainer.run_step(inputs, targets).loss);
  }
  return losses;
}

/// Bytes of a category that a program keeps between steps.
std::int64_t kept_bytes_of(const Program& program, Category category) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.origin != Origin::Node && buffer.category == category) {
      bytes += size_of(buffer.type).count;
    }
  }
  return bytes;
}

/// 2 bytes for the parameter, 2 for its gradient, 12 for the copy and both moments.
TEST(Master, ParameterTakesSixteenBytes) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
  const Trainer trainer(bf16_options(), *device);
  const std::int64_t count = trainer.parameter_count();
  EXPECT_EQ(kept_bytes_of(trainer.program(), Category::Parameter), 2 * count);
  EXPECT_EQ(kept_bytes_of(trainer.program(), Category::Optimizer), 12 * count);
  for (const ModelParameter& parameter : trainer.model().parameters) {
    const Graph& graph = trainer.graph();
    EXPECT_EQ(graph.value(graph.find("d_" + parameter.name)).type, parameter.type);
  }
}

/// The copy starts equal to the parameter; after some steps the parameter is the copy rounded, and the copy has more
/// digits.
TEST(Master, ParameterIsRoundedMasterCopy) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
  Trainer trainer(bf16_options(), *device);
  for (const int steps : {0, 3}) {
    (void)losses_of(trainer, steps);
    std::int64_t between = 0;
    CheckpointState state = trainer.state({});
    for (std::size_t i = 0; i < state.optimizer->specs.size(); ++i) {
      const std::string& name = state.optimizer->specs[i].name;
      if (!name.starts_with("master/")) {
        continue;
      }
      const std::span<const std::byte> bytes = state.optimizer->read(i);
      std::vector<float> copy(bytes.size() / sizeof(float));
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      const auto parameter =
          std::ranges::find(trainer.model().parameters, name.substr(7), &ModelParameter::name);
      ASSERT_NE(parameter, trainer.model().parameters.end()) << name;
      const std::span<const std::byte> rounded = trainer.read(*parameter);
      for (std::size_t e = 0; e < copy.size(); ++e) {
        BFloat16 element;
        std::memcpy(&element, rounded.data() + e * sizeof(element), sizeof(element));
        ASSERT_EQ(element, to_bf16(copy[e])) << name << " at " << e;
        between += to_f32(element) == copy[e] ? 0 : 1;
      }
    }
    EXPECT_EQ(between > 0, steps > 0);
  }
}

/// ZeRO shards the copy like the moments; the losses stay the same, bit for bit.
TEST(Master, IsShardedByZero) {
  std::array<std::int64_t, 4> state{};
  std::array<std::vector<double>, 4> losses;
  for (const int zero : {0, 1, 2, 3}) {
    TrainerOptions options = bf16_options();
    options.plan.mesh = Mesh({{"data", 2}});
    options.plan.zero = zero;
    std::mutex mutex;
    run_threads(2, [&](World& world) {
      Communicator communicator(world, options.plan.mesh);
      const std::unique_ptr<Device> device = make_cpu_device({.threads = 1, .pinned = false});
      Trainer trainer(options, *device, &communicator);
      std::vector<double> mine = losses_of(trainer, 3);
      const std::lock_guard lock(mutex);
      state.at(static_cast<std::size_t>(zero)) +=
          kept_bytes_of(trainer.program(), Category::Optimizer);
      losses.at(static_cast<std::size_t>(zero)) = std::move(mine);
    });
  }
  for (const std::size_t zero : {1U, 2U, 3U}) {
    EXPECT_EQ(state.at(zero), state[0] / 2) << "ZeRO " << zero;
    EXPECT_EQ(losses.at(zero), losses[0]) << "ZeRO " << zero;
  }
}

}  // namespace
}  // namespace trireme::train
