// The data of a training run: where it comes from, what is known of it, and how to read it as text.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cli/train_settings.h"
#include "train/data/batches.h"

namespace trireme::cli {

/// What is known of a loss before anything is trained.
struct LossMarks {
  double floor = 0;             ///< no model can do better on average
  double uninformed = 0;        ///< what a model gets that does not look at its input
  std::string floor_is{};       ///< after "is the floor:"
  std::string uninformed_is{};  ///< after "from"
};

struct TrainData {
  std::string name{};           ///< for people
  std::int64_t vocabulary = 0;  ///< of tokens
  std::unique_ptr<train::Batches> training{};
  std::unique_ptr<train::Batches> validation{};  ///< none: no part of it was set apart
  std::optional<LossMarks> marks{};
  std::function<std::string(std::span<const std::int32_t>)> text{};  ///< none: it is no text
};

/// The text of tokens, of which a model may know more than the data has; for those there is a U+FFFD.
[[nodiscard]] std::string text_of(const TrainData& data, std::span<const std::int32_t> tokens);

/// What the settings name, or what is generated for the model. Throws Error(Usage) that names the option and the file,
/// whatever is wrong with it, or says that the model takes no files.
[[nodiscard]] TrainData open_train_data(const TrainSettings& settings, const AnyModelConfig& model);

}  // namespace trireme::cli
