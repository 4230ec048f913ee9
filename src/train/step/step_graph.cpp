#include "train/step/step_graph.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "trireme/model_dims.h"
#include "trireme/optimize.h"
#include "trireme/program_set.h"
#include "trireme/recompute.h"

namespace trireme::train {
namespace {

template <class Compile>
std::optional<CompiledPlan> compile_update(const Model& model, const TrainerOptions& options,
                                           const Compile& compile) {
  if (!options.split_update) {
    return std::nullopt;
  }
  Graph update = make_split_training(model.graph, training_of(options, model.graph)).update;
  DimNames names = dim_names(update);
  return compile(NamedGraph{.graph = std::move(update), .names = std::move(names)}, options.plan);
}

template <class Compile>
CompiledTraining compile_by(const TrainerOptions& options, const Compile& compile) {
  PlannedStep step = make_planned_step(options);
  Model evaluation = make_evaluation_model(options);
  NamedGraph evaluated{.graph = evaluation.graph, .names = dim_names(evaluation.graph)};
  const Plan evaluation_plan = make_evaluation_plan(options.plan, evaluated.graph);
  std::optional<CompiledPlan> update = compile_update(step.model, options, compile);
  return {.model = std::move(step.model),
          .flops = step.flops,
          .step = compile(std::move(step.graph), options.plan),
          .update = std::move(update),
          .evaluation_parameters = std::move(evaluation.parameters),
          .evaluation = compile(std::move(evaluated), evaluation_plan),
          .model_copies = options.model_copies};
}

/// The model with a balance loss for each micro-batch of the plan, if it is to have that.
AnyModelConfig balanced_model(const TrainerOptions& options) {
  AnyModelConfig model = options.model;
  auto* language = std::get_if<ModelConfig>(&model);
  if (language != nullptr && language->balance_groups == 0) {
    language->balance_groups =
        std::gcd(options.batch.sequences, std::int64_t{options.plan.microbatches});
  }
  return model;
}

double bytes_along_data(const Program& program) {
  double bytes = 0;
  for (const OpTraffic& traffic : traffic_of(program)) {
    bytes += traffic.group == "data" ? traffic.bytes : 0;
  }
  return bytes;
}

}  // namespace

TrainingOptions training_of(const TrainerOptions& options, const Graph& forward) {
  TrainingOptions training = options.training;
  training.dim_names = dim_names(forward);
  if (dtype_of(options.model) == DType::F16 && !training.loss_scaling) {
    training.loss_scaling.emplace();
  }
  return training;
}

StepGraph make_step_graph(const Model& model, const TrainerOptions& options) {
  const Graph step =
      options.split_update
          ? make_split_training(model.graph, training_of(options, model.graph)).gradients
          : make_training_graph(model.graph, training_of(options, model.graph));
  const Graph graph = recompute_by(step, options.plan.recompute);
  return {.graph = remove_dead_nodes(graph), .flops = count_flops(graph)};
}

PlannedStep make_planned_step(const TrainerOptions& options) {
  PlannedStep planned;
  planned.model = make_model(balanced_model(options), options.batch);
  const StepGraph step = make_step_graph(planned.model, options);
  planned.graph = compress_gradients(step.graph, options.plan, dim_names(step.graph));
  planned.flops = options.plan.compression.any() ? count_flops(planned.graph.graph) : step.flops;
  return planned;
}

Model make_evaluation_model(const TrainerOptions& options) {
  return make_model(for_inference(options.model), options.batch);
}

Plan make_evaluation_plan(const Plan& training, const Graph& evaluation) {
  const Plan plain;
  Plan plan = with_assignments_in(evaluation, with_devices(training));
  std::erase_if(plan.values, [](const ValueAssignment& row) { return !row.location; });
  for (ValueAssignment& row : plan.values) {
    row.axes.clear();
  }
  if (plan.ops.empty() && !training.ops.empty()) {  // the model may have fewer blocks than stages
    plan.ops = {{.selector = "*", .location = {PipeLocation::Unit::Device, 0}}};
  }
  plan.microbatches = 1;
  plan.schedule = "gpipe";
  plan.table.reset();
  plan.chunks = 1;
  plan.compression = plain.compression;
  plan.recompute = plain.recompute;
  return plan;
}

CompiledTraining compile_training(const TrainerOptions& options) {
  return compile_by(options, [&](NamedGraph graph, const Plan& plan) {
    return CompiledPlan(std::move(graph), plan, options.fusions);
  });
}

CompiledTraining compile_training(const TrainerOptions& options, int only_rank) {
  return compile_by(options, [&](NamedGraph graph, const Plan& plan) {
    return CompiledPlan(std::move(graph), plan, only_rank, options.fusions);
  });
}

void check_programs(const CompiledTraining& compiled) {
  for (const CompiledPlan* plan : {&compiled.step, &compiled.evaluation}) {
    const std::vector<std::string> problems = trireme::problems(*plan);
    TRIREME_CHECK(problems.empty(),
                  fmt::format("programs of ranks: {}", fmt::join(problems, "; ")));
  }
}

CompressedBytes compressed_bytes(const CompiledTraining& compiled, const TrainerOptions& options) {
  TrainerOptions uncompressed = options;
  uncompressed.plan.compression = {};
  const Graph step = make_step_graph(compiled.model, uncompressed).graph;
  const CompiledPlan other({.graph = step, .names = dim_names(step)}, uncompressed.plan, 0);
  return {.sent = bytes_along_data(compiled.step.program(0)),
          .uncompressed = bytes_along_data(other.program(0))};
}

}  // namespace trireme::train
