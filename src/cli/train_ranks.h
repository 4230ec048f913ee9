// A training run on many ranks: those that this process forks, or of which it is one.
#pragma once

#include <optional>
#include <string>

#include "cli/train_options.h"
#include "trireme/plan.h"

namespace trireme::cli {

/// A variable of the environment.
[[nodiscard]] std::optional<std::string> variable(const std::string& name);

/// On processes forked from this one. What all ranks would complain about is found before. Throws what was found, or
/// an Error that refers to the message of a rank.
void run_forked(const TrainOptions& given, const Plan& plan);

/// As one of the ranks that another program has started; what is wrong with all is thrown on one.
void run_joined(const TrainOptions& options, const Plan& plan);

}  // namespace trireme::cli
