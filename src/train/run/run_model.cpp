#include "train/run/run_model.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

void require_vocabulary(const ModelConfig& config, std::int64_t data) {
  if (data > config.vocabulary) {
    throw Error(ErrorKind::Usage,
                fmt::format("the data has a vocabulary of {} tokens, model {} one of {}; give data "
                            "or a --tokenizer made for this model",
                            data, config.name, config.vocabulary));
  }
}

/// Fills in the sizes of a language model and applies the settings to it.
void complete(const TrainSettings& settings, const NamedModel& named, std::int64_t vocabulary,
              ModelConfig& config, RunModel& model) {
  const bool is_preset = named.is_preset;
  if (is_preset && model.weights) {
    config.vocabulary = vocabulary_of(*model.weights, config).value_or(config.vocabulary);
  } else if (is_preset) {
    config.vocabulary = vocabulary;
    config.context = std::max(settings.length, config.context);
  }
  require_vocabulary(config, vocabulary);
  config.dropout = settings.dropout;
  if (!is_preset || model.weights) {
    model.before_experts = config;
  }
  if (!settings.experts.empty()) {
    parse_experts(settings.experts, config);
  }
}

template <class Config>
void complete(const TrainSettings& settings, const NamedModel& /*named*/,
              std::int64_t /*vocabulary*/, const Config& config, const RunModel& /*model*/) {
  if (settings.dropout > 0 || !settings.experts.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} has no dropout and no experts; leave out --dropout and --experts",
                            config.name));
  }
}

}  // namespace

NamedModel name_train_model(const TrainSettings& settings, const std::string& run_folder) {
  const std::string kept = run_folder + "/config.json";
  std::error_code ignored;
  if (run_folder.empty() || !std::filesystem::exists(kept, ignored)) {
    return load_model(settings.model);
  }
  NamedModel model = load_model_file(kept);
  std::get<ModelConfig>(model.config).name = model_name(settings.model);
  return model;
}

RunModel open_run_model(const TrainSettings& settings, const NamedModel& named,
                        std::int64_t vocabulary, bool resumes) {
  const std::string& weights = settings.weights.empty() ? named.weights : settings.weights;
  RunModel model;
  model.description = named.description;
  if (!resumes && !weights.empty()) {
    parsed(settings.weights.empty() ? "--model" : "--weights", weights,
           [&](const std::string& path) { model.weights.emplace(path); });
  }
  model.config = named.config;
  set_dtype(model.config, parse_dtype(settings.dtype));
  std::visit([&](auto& config) { complete(settings, named, vocabulary, config, model); },
             model.config);
  return model;
}

WeightedModel weighted(const RunModel& model, const Trainer& trainer) {
  check_hugging_face_names(model.config, trainer.model().parameters);
  WeightedModel weighted;
  weighted.config = std::get<ModelConfig>(model.config);
  weighted.parameters = trainer.model().parameters;
  return weighted;
}

void load_weights(const RunModel& model, Trainer& trainer, World* world) {
  if (!model.weights) {
    return;
  }
  const HuggingFaceWeights weights(*model.weights, weighted(model, trainer));
  const bool reads = world == nullptr || world->rank() == 0;
  for (const ModelParameter& parameter : trainer.model().parameters) {
    HostBuffer tensor =
        reads ? weights.read(parameter.name)
              : HostBuffer(parameter.type.dtype, parameter.type.shape.element_count());
    if (world != nullptr) {
      const std::span<std::byte> bytes = tensor.raw();
      world->all().run(broadcast<std::uint8_t>(
          {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}, 0));
    }
    trainer.write(parameter, tensor.raw());
  }
  if (const std::optional<NonFinite> found = trainer.find_non_finite_state()) {
    throw Error(ErrorKind::Input, fmt::format("cannot start from {}: {}", model.weights->path(),
                                              to_text(*found, trainer.program())));
  }
}

std::string run_description(const RunModel& model) {
  if (!model.before_experts) {
    return {};
  }
  try {
    return hugging_face_config(*model.before_experts, model.description);
  } catch (const Error&) {
    if (model.description.empty() && !model.weights) {
      return {};  // described in code, without a config.json format
    }
    throw;
  }
}

std::string weights_text(const WeightFiles& files) {
  std::set<std::string> types;
  for (const auto& [name, tensor] : files.tensors()) {
    types.emplace(to_text(tensor.view.spec.dtype));
  }
  return fmt::format("{} tensors of {} in {}", files.tensors().size(), fmt::join(types, ", "),
                     files.path());
}

}  // namespace trireme::train
