// Turns trainer options into the graphs of the training step and the evaluation, and compiles them. Callable from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/step/learning_rate.h"
#include "trireme/compiled_plan.h"
#include "trireme/flops.h"
#include "trireme/fusions.h"
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
  /// How the model is distributed, and which activations are recomputed.
  Plan plan{};
  std::uint64_t seed = 1;
  /// Compiles the update separately from the step, which then only computes gradients: see
  /// Trainer::compute_gradients().
  bool split_update = false;
  /// How many workers train like this, each on its share of the batch; all else here is about one of them.
  int workers = 1;
  /// Copies of this rank's f32 parameters that synchronization keeps besides the trainer's.
  int model_copies = 0;
  /// The fusions of the device that runs the step.
  Fusions fusions{};
};

/// `options.training` completed from the model: f16 always uses loss scaling, and its matrices are identified by the
/// names of their dimensions.
[[nodiscard]] TrainingOptions training_of(const TrainerOptions& options, const Graph& forward);

struct StepGraph {
  Graph graph{};      ///< without dead nodes; not fused yet
  FlopCount flops{};  ///< of all its nodes
};

/// Excludes the update if the options split it. Throws Error(Usage) on incompatible options or a recomputation budget
/// that is too small (naming the minimum).
[[nodiscard]] StepGraph make_step_graph(const Model& model, const TrainerOptions& options);

/// The graph that a plan partitions: the model's step, with compressed gradients if the plan says so.
struct PlannedStep {
  Model model{};
  NamedGraph graph{};
  FlopCount flops{};  ///< of all its nodes
};
/// Throws as make_step_graph().
[[nodiscard]] PlannedStep make_planned_step(const TrainerOptions& options);

/// The forward pass alone, for validation and sampling; not fused yet. It is deterministic, so it may have fewer
/// parameters.
[[nodiscard]] Model make_evaluation_model(const TrainerOptions& options);
/// The training plan without its training-only parts: one micro-batch passes through the stages. Ops and parameters
/// stay on their devices; placements of values are derived.
[[nodiscard]] Plan make_evaluation_plan(const Plan& training, const Graph& evaluation);

/// A compiled training run: its step, and its evaluation on the same ranks.
struct CompiledTraining {
  Model model;
  FlopCount flops;  ///< per step
  CompiledPlan step;
  std::optional<CompiledPlan> update;  ///< if it is split from the step
  std::vector<ModelParameter> evaluation_parameters;
  CompiledPlan evaluation;
  int model_copies = 0;  ///< as in the options
};

/// Compiles the programs of all ranks. Throws as make_step_graph(), and Error(Usage) if the plan does not suit the
/// model.
[[nodiscard]] CompiledTraining compile_training(const TrainerOptions& options);
/// The same for a single rank.
[[nodiscard]] CompiledTraining compile_training(const TrainerOptions& options, int only_rank);

/// Fails a check if the ranks' programs are inconsistent, which would be an internal bug.
void check_programs(const CompiledTraining& compiled);

/// Bytes that rank 0 sends along `data` in a step, computed from the lower bounds of the collectives.
struct CompressedBytes {
  double sent = 0;
  double uncompressed = 0;  ///< under the same plan without compression
};
/// Compiles the uncompressed step for comparison.
[[nodiscard]] CompressedBytes compressed_bytes(const CompiledTraining& compiled,
                                               const TrainerOptions& options);

}  // namespace trireme::train
