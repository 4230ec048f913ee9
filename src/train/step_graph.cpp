#include "train/step_graph.h"

#include "trireme/model_dims.h"
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

std::vector<Program> make_rank_programs(const NamedGraph& graph, const Plan& plan,
                                        std::span<const int> ranks) {
  const Wishes wishes = wishes_of(graph.graph, plan, graph.names);
  const PipelineTable table = table_of(plan);
  const Partition partition(graph.graph, wishes);
  std::vector<Program> programs;
  programs.reserve(ranks.size());
  for (const int rank : ranks) {
    const RankGraph mine = partition.graph_at(place_of(plan, wishes, rank), table);
    programs.push_back(make_program(fuse_elementwise(mine.graph)));
  }
  return programs;
}

StepGraph make_step_graph(const Model& model, const TrainerOptions& options) {
  const Graph graph =
      recompute_by(make_training_graph(model.graph, training_of(options)), options.plan.recompute);
  return {.graph = remove_dead_nodes(graph), .flops = count_flops(graph)};
}

Program make_step_program(const Graph& step, const Plan& plan, int rank) {
  return make_rank_programs(compress_gradients(step, plan, dim_names(step)), plan,
                            std::span(&rank, 1))
      .front();
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

Program make_evaluation_program(const TrainerOptions& options, int rank) {
  const Graph graph = make_evaluation_model(options).graph;
  return make_rank_programs({.graph = graph, .names = dim_names(graph)},
                            make_evaluation_plan(options.plan), std::span(&rank, 1))
      .front();
}

}  // namespace trireme::train
