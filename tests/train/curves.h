// Small models of every kind, trained for a hundred steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/data/batches.h"
#include "train/data/language.h"
#include "train/step/trainer.h"
#include "trireme/cpu_device.h"

namespace trireme::train {

inline constexpr int kCurveSteps = 100;
inline constexpr BatchShape kCurveBatch{.sequences = 4, .length = 16};
inline constexpr std::int64_t kCurveExamples = 32;  ///< for models without sequences

inline ModelConfig small_language_model(const char* preset) {
  ModelConfig config = preset_model(preset);
  config.vocabulary = 16;
  config.context = 16;
  config.width = 32;
  config.layers = 2;
  config.heads = 4;
  config.key_heads = config.family == Family::Llama ? 2 : 4;
  config.head_width = 8;
  config.hidden = 64;
  return config;
}

/// "gpt", "llama", "experts", "depths", "conv" or "mlp".
inline AnyModelConfig curve_model(const std::string& name) {
  if (name == "mlp") {
    return MlpConfig{.hidden = {32, 32}};
  }
  if (name == "conv") {
    return ConvNetConfig{.filters = 8};
  }
  if (name == "experts") {
    ModelConfig config = small_language_model("experts-mini");
    config.experts = 4;
    return config;
  }
  if (name == "depths") {
    ModelConfig config = small_language_model("depths-mini");
    config.depth_capacity = 0.25;
    return config;
  }
  return small_language_model(name == "gpt" ? "gpt-nano" : "llama-tiny");
}

inline std::unique_ptr<Batches> curve_data(const ModelConfig& config) {
  const auto symbols = static_cast<std::int32_t>(config.vocabulary);
  const Language language({.symbols = symbols, .groups = 4, .successors = 4});
  const Tokens tokens(language.sample(20000, 1), symbols, "a small language");
  return make_batches(TokenSource(tokens, {.length = kCurveBatch.length}));
}
inline std::unique_ptr<Batches> curve_data(const MlpConfig& config) {
  return make_batches(WaveTask({.inputs = config.inputs, .outputs = config.outputs}), 1);
}
inline std::unique_ptr<Batches> curve_data(const ConvNetConfig& config) {
  return make_batches(PatternTask({.size = config.size, .classes = config.classes}), 1);
}

/// The losses of the first steps, in this dtype, on this device.
inline std::vector<double> loss_curve(AnyModelConfig model, DType dtype, Device& device,
                                      int steps = kCurveSteps) {
  TrainerOptions options;
  std::visit([&](auto& config) { config.dtype = dtype; }, model);
  options.model = model;
  options.batch = kCurveBatch;
  if (!std::holds_alternative<ModelConfig>(model)) {
    options.batch.sequences = kCurveExamples;
  }
  options.rate.peak = 3e-3;
  options.training.clip_limit = 1.0;
  Trainer trainer(options, device);
  const std::unique_ptr<Batches> data =
      std::visit([](const auto& config) { return curve_data(config); }, model);
  std::vector<std::byte> inputs(static_cast<std::size_t>(trainer.input_bytes().count));
  std::vector<std::byte> targets(static_cast<std::size_t>(trainer.target_bytes().count));
  std::vector<double> losses;
  DataPosition at{};
  for (int step = 0; step < steps; ++step) {
    data->fill(at, {inputs, targets});
    at = data->advance(at, options.batch.sequences);
    StepResult result = trainer.run_step(inputs, targets);
    while (result.overflowed) {
      result = trainer.run_step(inputs, targets);
    }
    losses.push_back(result.loss);
  }
  return losses;
}
inline std::vector<double> loss_curve(const AnyModelConfig& model, DType dtype,
                                      const CpuOptions& cpu, int steps = kCurveSteps) {
  const std::unique_ptr<Device> device = make_cpu_device(cpu);
  return loss_curve(model, dtype, *device, steps);
}

}  // namespace trireme::train
