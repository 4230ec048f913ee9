// Compiles the training step of a run without running it, for predictions and for printing plans. Callable from any
// thread.
#pragma once

#include "trireme/compiled_plan.h"
#include "trireme/load_model.h"
#include "trireme/plan.h"
#include "trireme/train_settings.h"

namespace trireme {

struct TrainStep {
  CompiledPlan compiled;
  double model_flops = 0;  ///< of the matrix products and attention of a step, all ranks together
};

/// Compiles the training step of the settings' model under the plan, for one rank of each kind (CompiledPlan::kinds()).
/// Opens neither data nor weights: a language model has its own vocabulary. Throws Error(Usage) as a run with these
/// settings would.
[[nodiscard]] TrainStep compile_train_step(const TrainSettings& settings, const Plan& plan);
/// The same for a model described in code; ignores settings.model.
[[nodiscard]] TrainStep compile_train_step(const AnyModelConfig& model,
                                           const TrainSettings& settings, const Plan& plan);

/// The same for a loaded model; ignores settings.model.
[[nodiscard]] TrainStep compile_train_step(const NamedModel& model, const TrainSettings& settings,
                                           const Plan& plan);

/// The graph of the step of this model, not compiled, for predictions of models and meshes that are too large to
/// compile. Throws like compile_train_step().
[[nodiscard]] NamedGraph make_train_step(const TrainSettings& settings, const NamedModel& model,
                                         const Plan& plan);

}  // namespace trireme
