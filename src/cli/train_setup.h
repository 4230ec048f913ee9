// What a training run's options stand for: its model, its trainer's options, its checkpoint. Looked at once before
// there are ranks, and by each of them.
#pragma once

#include "cli/load_model.h"
#include "cli/train_options.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/step_graph.h"

namespace trireme::cli {

/// Throws Error(Usage) that names the option, if there is no such model or --length is not for it.
[[nodiscard]] NamedModel name_model(const TrainOptions& options);

/// Throws Error(Usage) if the settings do not go with the plan.
[[nodiscard]] train::TrainerOptions trainer_options(const TrainSettings& settings,
                                                    const AnyModelConfig& model, const Plan& plan);

/// The checkpoint that the run goes on from. Throws Error(Usage) if it has all its steps.
[[nodiscard]] train::LoadedCheckpoint open_checkpoint(const TrainOptions& options);

}  // namespace trireme::cli
