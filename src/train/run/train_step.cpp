#include "trireme/train_step.h"

#include <utility>
#include <variant>

#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "train/step/step_graph.h"
#include "trireme/message.h"

namespace trireme {

namespace {

train::TrainerOptions options_of(const TrainSettings& settings, const NamedModel& named,
                                 const Plan& plan) {
  const auto* language = std::get_if<ModelConfig>(&named.config);
  const std::int64_t vocabulary = language != nullptr ? language->vocabulary : 0;
  const AnyModelConfig model = train::open_run_model(settings, named, vocabulary, true).config;
  return train::trainer_options(settings, model, plan);
}

TrainStep compile_named(const NamedModel& named, const TrainSettings& settings, const Plan& plan) {
  const train::TrainerOptions options = options_of(settings, named, plan);
  train::PlannedStep step = train::make_planned_step(options);
  return {CompiledPlan(std::move(step.graph), plan, OneOfEachKind{}, options.fusions),
          step.flops.model().products};
}

}  // namespace

TrainStep compile_train_step(const TrainSettings& settings, const Plan& plan) {
  return compile_named(parsed("--model", settings.model, load_model), settings, plan);
}

TrainStep compile_train_step(const AnyModelConfig& model, const TrainSettings& settings,
                             const Plan& plan) {
  NamedModel named;
  named.config = model;
  return compile_named(named, settings, plan);
}

TrainStep compile_train_step(const NamedModel& model, const TrainSettings& settings,
                             const Plan& plan) {
  return compile_named(model, settings, plan);
}

NamedGraph make_train_step(const TrainSettings& settings, const NamedModel& model,
                           const Plan& plan) {
  return train::make_planned_step(options_of(settings, model, plan)).graph;
}

}  // namespace trireme
