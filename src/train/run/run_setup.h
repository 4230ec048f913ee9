// Resolves the options of a run: its model, data, trainer options and checkpoint. Used once before the ranks start, and
// by each rank. Callable from any thread.
#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/step/learning_rate.h"
#include "train/step/step_graph.h"
#include "trireme/load_model.h"
#include "trireme/train.h"

namespace trireme::train {

/// The model that the options name. Throws Error(Usage) that names the option if there is no such model.
[[nodiscard]] NamedModel find_model(const RunOptions& options);

/// Opens the data that the options name, for that model; replaces "{rank}" in file names with this rank along data.
[[nodiscard]] TrainData open_data(const RunOptions& options, const AnyModelConfig& model,
                                  int rank = 0);

/// For one worker, if each worker has its own model. Throws Error(Usage) if the settings do not match the plan.
[[nodiscard]] TrainerOptions trainer_options(const TrainSettings& settings,
                                             const AnyModelConfig& model, const Plan& plan);

/// The schedule that the settings name, or the default for the model and the optimizer.
[[nodiscard]] LearningRate learning_rate(const TrainSettings& settings,
                                         const AnyModelConfig& model);

/// A schedule to try after `rate` was too large: the default or, if that is no smaller, a third of the rate.
[[nodiscard]] std::string smaller_rate(const TrainSettings& settings, const AnyModelConfig& model,
                                       double rate);

/// Whether the run resumes, and has a checkpoint to resume from. Without one it starts over.
[[nodiscard]] bool has_checkpoint(const RunOptions& options);

/// The checkpoint to resume from, which there must be. Throws Error(Usage) if the run has already taken all its steps.
[[nodiscard]] LoadedCheckpoint open_checkpoint(const RunOptions& options);

}  // namespace trireme::train
