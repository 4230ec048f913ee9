// What a training run computes, as graphs: the options in, the step and the evaluation out. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/learning_rate.h"
#include "trireme/flops.h"
#include "trireme/model_kinds.h"
#include "trireme/partition.h"
#include "trireme/plan.h"
#include "trireme/program.h"  // before training.h: else its Optimizer is shadowed by a category
#include "trireme/training.h"

namespace trireme::train {

struct TrainerOptions {
  AnyModelConfig model{};
  BatchShape batch{};
  LearningRate rate{};
  TrainingOptions training{};
  /// Where it runs, and what it computes again.
  Plan plan{};
  std::uint64_t seed = 1;
};

/// `options.training` as the step has it: in f16 the loss is scaled, whether or not it says so.
[[nodiscard]] TrainingOptions training_of(const TrainerOptions& options);

struct StepGraph {
  Graph graph{};      ///< nothing dead in it; not fused yet
  FlopCount flops{};  ///< of all its nodes
};

/// What ranks of a plan run for a graph, as it is executed. Throws Error(Usage) if the plan does not go with the graph.
[[nodiscard]] std::vector<Program> make_rank_programs(const NamedGraph& graph, const Plan& plan,
                                                      std::span<const int> ranks);

/// Throws Error(Usage) on options that do not go together or a budget that cannot be held (with the least that
/// could).
[[nodiscard]] StepGraph make_step_graph(const Model& model, const TrainerOptions& options);

/// What a rank of the plan runs in a step of a StepGraph.
[[nodiscard]] Program make_step_program(const Graph& step, const Plan& plan, int rank);

/// The forward pass alone, for validation and samples; not fused yet. Nothing is random in it, so that it may have
/// fewer parameters.
[[nodiscard]] Model make_evaluation_model(const TrainerOptions& options);
/// What it goes by on the ranks of a training plan: in one piece, from stage to stage.
[[nodiscard]] Plan make_evaluation_plan(const Plan& training);
[[nodiscard]] Program make_evaluation_program(const TrainerOptions& options, int rank);

}  // namespace trireme::train
