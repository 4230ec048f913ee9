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

StepGraph make_step_graph(const Model& model, const TrainerOptions& options) {
  const Graph graph =
      with_recomputation(make_training_graph(model.graph, options.training), options);
  return {.graph = fuse_elementwise(remove_dead_nodes(graph)), .flops = count_flops(graph)};
}

Graph make_evaluation_graph(const TrainerOptions& options) {
  ModelConfig config = options.model;
  config.dropout = 0;
  return fuse_elementwise(make_model(config, options.batch).graph);
}

}  // namespace trireme::train
