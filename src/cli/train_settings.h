// What a training run is made from, as data: kept in its run folder, so that it can go on later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "train/learning_rate.h"
#include "trireme/model_kinds.h"
#include "trireme/recompute.h"

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
  std::string recompute = "none";
  std::uint64_t seed = 1;

  [[nodiscard]] train::LearningRate learning_rate(const AnyModelConfig& model_config) const;
};

/// Reads "8,per-token=2,gate=softmax-first,capacity=1.25,balance=0.01,shared=1,noise" into a model's mixture of
/// experts: how many, and settings by name, in any order; gate is softmax-first or top-k-first, capacity=0 drops
/// nothing, noise is on or off. What is not said stays. Throws Error(Usage) that says what is wrong.
void parse_experts(std::string_view text, ModelConfig& config);

[[nodiscard]] RecomputeMode parse_recompute(std::string_view text);

/// JSON; parse_train_settings reads it back. Throws Error(Input) that begins with `what`.
[[nodiscard]] std::string to_text(const TrainSettings& settings);
[[nodiscard]] TrainSettings parse_train_settings(std::string_view text, std::string_view what);

}  // namespace trireme::cli
