// The options of a plan, for the commands that take one.
#pragma once

#include <string>

#include "command_line/command_line.h"
#include "trireme/load_model.h"
#include "trireme/plan_options.h"

namespace trireme::cli {

/// Requires that the command already has --recompute, which a plan file excludes as well. `mesh_help`: what else --mesh
/// takes there.
void add_plan_options(Command* command, PlanOptions& options, const std::string& mesh_help = "");

/// The plan of the options, with --recompute unless it is from a file. Reports options without effect on standard error.
[[nodiscard]] Plan plan_with_notes(const PlanOptions& options, const std::string& recompute);

/// A model to train, or one that estimates know, where nothing is trained.
[[nodiscard]] NamedModel load_any_model(const std::string& model);

}  // namespace trireme::cli
