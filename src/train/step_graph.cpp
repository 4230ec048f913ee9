#include "train/step_graph.h"

#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/optimize.h"

namespace trireme::train {
namespace {

Graph with_recomputation(Graph graph, const TrainerOptions& options) {
  if (!options.activation_budget) {
    return options.recompute == RecomputeMode::None
               ? std::move(graph)
               : recompute(graph, {.mode = options.recompute, .blocks = {}});
  }
  const std::optional<RecomputePlan> plan = plan_recompute(graph, *options.activation_budget);
  if (!plan) {
    const Bytes least = kept_bytes(recompute(graph, {.mode = RecomputeMode::Full, .blocks = {}}));
    throw Error(ErrorKind::Usage,
                fmt::format("activations cannot be kept within {}: with everything recomputed they "
                            "take {}; give more, or make the batch smaller",
                            to_text(*options.activation_budget), to_text(least)));
  }
  return recompute(graph, {.mode = RecomputeMode::None, .blocks = plan->blocks});
}

}  // namespace

TrainingOptions training_of(const TrainerOptions& options) {
  TrainingOptions training = options.training;
  if (dtype_of(options.model) == DType::F16 && !training.loss_scaling) {
    training.loss_scaling.emplace();
  }
  return training;
}

StepGraph make_step_graph(const Model& model, const TrainerOptions& options) {
  const Graph graph =
      with_recomputation(make_training_graph(model.graph, training_of(options)), options);
  return {.graph = remove_dead_nodes(graph), .flops = count_flops(graph)};
}

Model make_evaluation_model(const TrainerOptions& options) {
  Model model = make_model(for_inference(options.model), options.batch);
  model.graph = fuse_elementwise(model.graph);
  return model;
}

}  // namespace trireme::train
