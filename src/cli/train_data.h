// The data of a training run: where it comes from, what is known of it, and how to read it as text.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "cli/train_settings.h"
#include "train/data.h"

namespace trireme::cli {

/// What is known of a language before anything is trained, in nats per token.
struct LossMarks {
  double floor = 0;    ///< no model can do better on average
  double unigram = 0;  ///< knowing only how often tokens are
};

struct TrainData {
  std::string name{};  ///< for people
  std::int64_t vocabulary = 0;
  train::TokenSource training;
  std::optional<train::TokenSource> validation{};
  std::optional<LossMarks> marks{};
  std::function<std::string(std::span<const std::int32_t>)> text{};
};

/// Throws Error(Usage) that names the option and the file, whatever is wrong with it.
[[nodiscard]] TrainData open_train_data(const TrainSettings& settings);

}  // namespace trireme::cli
