// The options of `trireme train`.
#pragma once

#include <optional>
#include <string>

#include "cli/train_plan.h"
#include "command_line/command_line.h"
#include "trireme/run_request.h"

namespace trireme::cli {

struct TrainOptions : RunRequest {
  std::optional<std::string> bind{};  ///< WorldOptions::bind
  bool json = false;
  std::optional<int> watch{};  ///< the port of the live report; 0: any
};

/// `options` must outlive the command.
void add_train_options(Command* command, TrainOptions& options);

}  // namespace trireme::cli
