// The model of a training run: its description, its initial weights, its export.
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
  /// If it is no preset, or came with weights: the model before the settings gave it experts.
  std::optional<ModelConfig> before_experts{};
};

/// What the settings name. `run_folder` is that of a run that resumes, or "": a config.json kept there counts.
[[nodiscard]] NamedModel name_train_model(const TrainSettings& settings,
                                          const std::string& run_folder);

/// The model that the settings ask for, for data of this vocabulary. A preset takes the vocabulary of the data, or
/// of the weights, and the length of the sequences if that exceeds its context; any other model stays as it is, except
/// for its experts. A run that `resumes` reads no weights. Throws Error(Usage) if the data has more tokens than the
/// model knows, or if the model cannot have dropout or experts but should.
[[nodiscard]] RunModel open_run_model(const TrainSettings& settings, const NamedModel& named,
                                      std::int64_t vocabulary, bool resumes);

/// The model as the trainer has it, for its weights. Throws as check_hugging_face_names.
[[nodiscard]] WeightedModel weighted(const RunModel& model, const Trainer& trainer);

/// Loads the initial weights into the trainer, if the model has some: rank 0 reads them and broadcasts. Names, shapes and
/// types are checked first. Throws Error(Input), also if an element is not finite.
void load_weights(const RunModel& model, Trainer& trainer, World* world);

/// The config.json to keep in the run's folder, without what the settings say. "" if the model is a preset, or has no
/// such form.
[[nodiscard]] std::string run_description(const RunModel& model);

/// "12 tensors of bf16 in models/tiny/model.safetensors"
[[nodiscard]] std::string weights_text(const WeightFiles& files);

}  // namespace trireme::train
