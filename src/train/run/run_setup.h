// What the options of a run stand for: its model, its trainer's options, its checkpoint. Used once before there are
// ranks, and by each of them. Any thread.
#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/step/learning_rate.h"
#include "train/step/step_graph.h"
#include "trireme/load_model.h"
#include "trireme/train.h"

namespace trireme::train {

/// The model of the options. Throws Error(Usage) that names the option, if there is no such model.
[[nodiscard]] NamedModel find_model(const RunOptions& options);

/// The data of the options, for that model.
[[nodiscard]] TrainData open_data(const RunOptions& options, const AnyModelConfig& model);

/// Throws Error(Usage) if the settings do not fit the plan.
[[nodiscard]] TrainerOptions trainer_options(const TrainSettings& settings,
                                             const AnyModelConfig& model, const Plan& plan);

/// What suits the model if the settings do not say.
[[nodiscard]] LearningRate default_learning_rate(const TrainSettings& settings,
                                                 const AnyModelConfig& model);

/// The checkpoint that the run resumes from. Throws Error(Usage) if it has all its steps.
[[nodiscard]] LoadedCheckpoint open_checkpoint(const RunOptions& options);

}  // namespace trireme::train
