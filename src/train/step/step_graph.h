// What a training run computes: the options in; the graphs of the step and the evaluation, and what they compile to,
// out. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "train/step/learning_rate.h"
#include "trireme/compiled_plan.h"
#include "trireme/flops.h"
#include "trireme/model_kinds.h"
#include "trireme/plan.h"
#include "trireme/program.h"  // before training.h: else its Optimizer is shadowed by a category
#include "trireme/training.h"

namespace trireme::train {

struct TrainerOptions {
  AnyModelConfig model{};
  BatchShape batch{};
  LearningRate rate{};
  TrainingOptions training{};
  /// Where it runs, and what it recomputes.
  Plan plan{};
  std::uint64_t seed = 1;
};

/// `options.training` as the step has it: in f16 the loss is scaled, whether or not it says so.
[[nodiscard]] TrainingOptions training_of(const TrainerOptions& options);

struct StepGraph {
  Graph graph{};      ///< nothing dead in it; not fused yet
  FlopCount flops{};  ///< of all its nodes
};

/// Throws Error(Usage) on options that do not go together or a budget that cannot be held (with the least that
/// could).
[[nodiscard]] StepGraph make_step_graph(const Model& model, const TrainerOptions& options);

/// The forward pass alone, for validation and samples; not fused yet. Nothing in it is random, so it may have fewer
/// parameters.
[[nodiscard]] Model make_evaluation_model(const TrainerOptions& options);
/// The training plan without what only training needs: one micro-batch that passes from stage to stage.
[[nodiscard]] Plan make_evaluation_plan(const Plan& training);

/// What a training run compiles to: its step, and its evaluation on the same ranks.
struct CompiledTraining {
  Model model;
  FlopCount flops;  ///< of a step
  CompiledPlan step;
  std::vector<ModelParameter> evaluation_parameters;
  CompiledPlan evaluation;
};

/// Compiles the programs of all ranks. Throws as make_step_graph(), and Error(Usage) if the plan does not fit the model.
[[nodiscard]] CompiledTraining compile_training(const TrainerOptions& options);
/// The same for one rank only.
[[nodiscard]] CompiledTraining compile_training(const TrainerOptions& options, int only_rank);

/// Fails a check if the programs of all ranks do not fit together, which would be a bug of ours.
void check_programs(const CompiledTraining& compiled);

/// What rank 0 sends along `data` in a step, by the lower bounds of collectives.
struct CompressedBytes {
  double sent = 0;
  double uncompressed = 0;  ///< by the same plan without compression
};
/// Compiles the uncompressed step to compare.
[[nodiscard]] CompressedBytes compressed_bytes(const CompiledTraining& compiled,
                                               const TrainerOptions& options);

}  // namespace trireme::train
