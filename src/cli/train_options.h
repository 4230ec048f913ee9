// The options of `trireme train`: what they are, and what can be known to be wrong with them at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/train_plan.h"
#include "cli/train_settings.h"

namespace trireme::cli {

struct TrainOptions {
  TrainSettings settings{};
  std::vector<std::string> given{};  ///< settings, by name
  std::string run_folder{};
  std::string resume{};
  std::string export_folder{};
  PlanOptions plan{};
  std::optional<std::string> bind{};  ///< WorldOptions::bind
  bool encrypt = false;
  int threads = 0;
  std::optional<Bytes> memory_limit{};
  bool tensorboard = false;
  std::int64_t save_every = 0;
  std::int64_t validate_every = 0;
  bool json = false;
};

/// All but those of the plan, into `options`, which must live as long as the command.
void add_train_options(CLI::App* command, TrainOptions& options);

/// A resumed run has the settings that it was begun with, but for what is given anew. Throws Error(Usage) if there is
/// no such run, or if it cannot change so.
[[nodiscard]] TrainOptions completed(TrainOptions options);

/// All that can be known to be wrong before anything is opened or made; throws Error(Usage).
void verify(const TrainOptions& options);

}  // namespace trireme::cli
