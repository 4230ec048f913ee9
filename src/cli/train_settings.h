// What a training run is made from, as data: kept in its run folder, so that it can go on later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/step/learning_rate.h"
#include "train/step/step_graph.h"
#include "trireme/model_kinds.h"

namespace trireme::cli {

struct TrainSettings {
  std::string model = "gpt-mini";  ///< a preset, or a path to a config.json
  std::string weights{};           ///< that the run began with; none: random ones
  std::string data{};              ///< a file; none: the generated language
  std::string tokenizer{};  ///< a tokenizer.json; none: bytes, or tokens of two bytes in *.bin
  std::int64_t batch = 16;
  std::int64_t length = 128;
  std::int64_t steps = 750;
  std::string rate{};  ///< none: warmup and cosine over the steps
  double clip = 1.0;
  double decay = 0.1;
  double dropout = 0.0;
  std::string experts{};     ///< see parse_experts; none: as the model has them
  double validation = 0.05;  ///< share of the data
  std::string dtype = "f32";
  std::string master = "f32";  ///< of bf16 and f16, what the optimizer moves; or "none"
  double loss_scale = LossScaling{}.first;  ///< of f16, at the beginning
  std::string recompute = "none";           ///< see parse_recompute; a plan file's, if there is one
  std::uint64_t seed = 1;

  [[nodiscard]] train::LearningRate learning_rate(const AnyModelConfig& model_config) const;
  /// What suits the model where nothing is asked for.
  [[nodiscard]] train::LearningRate default_learning_rate(const AnyModelConfig& model_config) const;
  /// Throws Error(Usage) that names the option which cannot be, and what could. Looks at no file, nor at `model`.
  void verify() const;
};

/// Reads "8,per-token=2,every=2,gate=softmax-first,capacity=1.25,balance=0.01,shared=1,noise" into a model's mixture of
/// experts: how many, and settings by name, in any order; every=2 puts them into each second block alone, gate is
/// softmax-first or top-k-first, capacity=0 drops
/// nothing, noise is on or off. What is not said stays. Throws Error(Usage) that says what is wrong.
void parse_experts(std::string_view text, ModelConfig& config);

/// JSON; parse_train_settings reads it back. Throws Error(Input) that begins with `what`.
[[nodiscard]] std::string to_text(const TrainSettings& settings);
[[nodiscard]] TrainSettings parse_train_settings(std::string_view text, std::string_view what);

/// Whether this is the name of one of them: "steps", "rate".
[[nodiscard]] bool is_setting(std::string_view name);

/// Those of a run that goes on: as it was begun, but for what is given anew, by name.
/// Throws Error(Usage) that names one that a run cannot change on its way.
[[nodiscard]] TrainSettings resumed_settings(const TrainSettings& begun, const TrainSettings& given,
                                             const std::vector<std::string>& names);

}  // namespace trireme::cli
