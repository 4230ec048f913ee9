// The options of `trireme train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/train_plan.h"
#include "command_line/command_line.h"
#include "trireme/train.h"

namespace trireme::cli {

struct TrainOptions {
  RunOptions run{};                  ///< without its plan
  std::vector<std::string> given{};  ///< names of the settings given on the command line
  PlanOptions plan{};
  std::optional<std::string> bind{};  ///< WorldOptions::bind
  bool encrypt = false;
  int threads = 0;
  std::string device = "auto";
  std::string gpu_exchange = "auto";
  bool deterministic = false;
  bool json = false;
  std::optional<int> watch{};  ///< the port of the live report; 0: any
};

/// `options` must outlive the command.
void add_train_options(Command* command, TrainOptions& options);

/// For a resumed run, loads its settings and applies those given. Throws Error(Usage) if there is no such run, or a
/// given setting cannot change.
void complete_settings(TrainOptions& options);

/// Validates the options before anything is opened; throws Error(Usage).
void require_valid(const TrainOptions& options);

}  // namespace trireme::cli
