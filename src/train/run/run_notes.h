// Notes for the user about the options of a run: options without effect, and ranks that will idle. Callable from any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/plan_options.h"
#include "trireme/train_settings.h"

namespace trireme::train {

/// `cores`: of a machine that trains on its CPU. One sentence each, naming the option: "--zero 3 has no effect: it shards along data, which the mesh does not have".
[[nodiscard]] std::vector<std::string> run_notes(const TrainSettings& settings, const Plan& plan,
                                                 const AnyModelConfig& model,
                                                 std::optional<int> cores = {});

}  // namespace trireme::train
