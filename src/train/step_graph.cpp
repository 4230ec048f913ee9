#include "train/step_graph.h"

#include "trireme/optimize.h"
#include "trireme/recompute.h"

namespace trireme::train {

TrainingOptions training_of(const TrainerOptions& options) {
  TrainingOptions training = options.training;
  if (dtype_of(options.model) == DType::F16 && !training.loss_scaling) {
    training.loss_scaling.emplace();
  }
  return training;
}

StepGraph make_step_graph(const Model& model, const TrainerOptions& options) {
  const Graph graph =
      recompute_by(make_training_graph(model.graph, training_of(options)), options.plan.recompute);
  return {.graph = remove_dead_nodes(graph), .flops = count_flops(graph)};
}

Model make_evaluation_model(const TrainerOptions& options) {
  return make_model(for_inference(options.model), options.batch);
}

Plan make_evaluation_plan(const Plan& training) {
  const Plan plain;
  Plan plan = training;
  plan.microbatches = 1;
  plan.schedule = "gpipe";
  plan.table.reset();
  plan.chunks = 1;
  plan.compression = plain.compression;
  plan.recompute = plain.recompute;
  return plan;
}

}  // namespace trireme::train
