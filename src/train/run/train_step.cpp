#include "trireme/train_step.h"

#include <utility>
#include <variant>

#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "train/step/step_graph.h"
#include "trireme/message.h"

namespace trireme {

TrainStep compile_train_step(const TrainSettings& settings, const Plan& plan) {
  const NamedModel named = parsed("--model", settings.model, load_model);
  const auto* language = std::get_if<ModelConfig>(&named.config);
  const std::int64_t vocabulary = language != nullptr ? language->vocabulary : 0;
  const AnyModelConfig model = train::open_run_model(settings, named, vocabulary, true).config;
  train::CompiledTraining compiled =
      train::compile_training(train::trainer_options(settings, model, plan));
  return {std::move(compiled.step), compiled.flops.model().products};
}

}  // namespace trireme
