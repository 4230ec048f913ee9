// The options of `trireme train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/train_plan.h"
#include "trireme/train.h"

namespace trireme::cli {

struct TrainOptions {
  RunOptions run{};                  ///< without its plan
  std::vector<std::string> given{};  ///< settings on the command line, by name
  PlanOptions plan{};
  std::optional<std::string> bind{};  ///< WorldOptions::bind
  bool encrypt = false;
  int threads = 0;
  bool json = false;
};

/// All but those of the plan, into `options`, which must outlive the command.
void add_train_options(CLI::App* command, TrainOptions& options);

/// A run that resumes has its own settings, except for those given. Throws Error(Usage) if there is no such run, or if
/// it cannot change so.
void complete_settings(TrainOptions& options);

/// Finds what is wrong before anything is opened; throws Error(Usage).
void require_valid(const TrainOptions& options);

}  // namespace trireme::cli
