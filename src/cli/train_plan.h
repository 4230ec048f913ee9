// The options of a plan, for the commands that take one.
#pragma once

#include "command_line/command_line.h"
#include "trireme/load_model.h"
#include "trireme/plan_options.h"

namespace trireme::cli {

/// Requires that the command already has --recompute, which a plan file excludes as well.
void add_plan_options(Command* command, PlanOptions& options);

/// A model to train, or one that estimates know, where nothing is trained.
[[nodiscard]] NamedModel load_any_model(const std::string& model);

}  // namespace trireme::cli
