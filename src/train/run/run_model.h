// The model of a training run: its description, initial weights and export.
#pragma once

#include <optional>
#include <string>

#include "train/step/trainer.h"
#include "trireme/hugging_face.h"
#include "trireme/load_model.h"
#include "trireme/train_settings.h"

namespace trireme::train {

struct RunModel {
  AnyModelConfig config{};
  std::string description{};             ///< the text of its config.json; "" if there is none
  std::optional<WeightFiles> weights{};  ///< the initial ones
  /// The model before the settings added experts, unless it is a preset without weights.
  std::optional<ModelConfig> before_experts{};
};

/// The model that the settings name. `run_folder` is the folder of a resumed run, or ""; a config.json stored there
/// takes precedence.
[[nodiscard]] NamedModel name_train_model(const TrainSettings& settings,
                                          const std::string& run_folder);

/// The model specified by the settings, for data with this vocabulary. A preset takes its vocabulary from the data or
/// the weights, and extends its context to the sequence length; any other model keeps its sizes, except for experts. A
/// run that `resumes` reads no weights. Throws Error(Usage) if the data has more tokens than the model, or if the
/// settings request dropout or experts for a model that does not support them.
[[nodiscard]] RunModel open_run_model(const TrainSettings& settings, const NamedModel& named,
                                      std::int64_t vocabulary, bool resumes);

/// The model with its parameters in the trainer, for loading or exporting weights. Throws as check_hugging_face_names.
[[nodiscard]] WeightedModel weighted(const RunModel& model, const Trainer& trainer);

/// Loads the initial weights, if any, into the trainer: rank 0 reads them and broadcasts. Names, shapes and types are
/// checked first. Throws Error(Input), also if an element is not finite.
void load_weights(const RunModel& model, Trainer& trainer, World* world);

/// The config.json to store in the run's folder, before the settings are applied. "" if the model is a preset or has no
/// such format.
[[nodiscard]] std::string run_description(const RunModel& model);

/// "12 tensors of bf16 in models/tiny/model.safetensors"
[[nodiscard]] std::string weights_text(const WeightFiles& files);

}  // namespace trireme::train
