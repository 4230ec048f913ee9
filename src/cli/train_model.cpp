#include "cli/train_model.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "cli/load_model.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

NamedModel named_model(const TrainSettings& settings, const std::string& run_folder) {
  const std::string kept = run_folder + "/config.json";
  std::error_code ignored;
  if (run_folder.empty() || !std::filesystem::exists(kept, ignored)) {
    return load_model(settings.model);
  }
  NamedModel model = load_model_file(kept);
  model.config.name = model_name(settings.model);
  return model;
}

void require_vocabulary(const ModelConfig& config, std::int64_t data) {
  if (data > config.vocabulary) {
    throw Error(ErrorKind::Usage,
                fmt::format("the data has a vocabulary of {} tokens, model {} one of {}; give data "
                            "or a --tokenizer made for this model",
                            data, config.name, config.vocabulary));
  }
}

}  // namespace

TrainModel open_train_model(const TrainSettings& settings, std::int64_t vocabulary,
                            const std::string& run_folder) {
  const NamedModel named = named_model(settings, run_folder);
  const std::string& weights = settings.weights.empty() ? named.weights : settings.weights;
  TrainModel model;
  model.config = named.config;
  model.description = named.description;
  if (run_folder.empty() && !weights.empty()) {
    model.weights.emplace(weights);
  }
  ModelConfig& config = model.config;
  if (model.description.empty() && model.weights) {
    config.vocabulary = vocabulary_of(*model.weights, config).value_or(config.vocabulary);
  } else if (model.description.empty()) {
    config.vocabulary = vocabulary;
    config.context = std::max(settings.length, config.context);
  }
  require_vocabulary(config, vocabulary);
  config.dropout = settings.dropout;
  config.dtype = parse_dtype(settings.dtype);
  return model;
}

WeightedModel weighted(const TrainModel& model, const train::Trainer& trainer) {
  return {.config = model.config, .parameters = trainer.model().parameters};
}

void begin_with_weights(const TrainModel& model, train::Trainer& trainer) {
  if (!model.weights) {
    return;
  }
  const HuggingFaceWeights weights(*model.weights, weighted(model, trainer));
  for (const ModelParameter& parameter : trainer.model().parameters) {
    trainer.write(parameter, weights.read(parameter.name).raw());
  }
}

std::string run_description(const TrainModel& model) {
  if (model.description.empty() && !model.weights) {
    return {};
  }
  return hugging_face_config(model.config, model.description);
}

std::string weights_text(const WeightFiles& files) {
  std::set<std::string> types;
  for (const auto& [name, tensor] : files.tensors()) {
    types.emplace(to_text(tensor.view.spec.dtype));
  }
  return fmt::format("{} tensors of {} in {}", files.tensors().size(), fmt::join(types, ", "),
                     files.path());
}

}  // namespace trireme::cli
