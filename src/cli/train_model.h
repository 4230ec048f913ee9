// The model of a training run: what describes it, what its first weights are, and where it goes afterwards.
#pragma once

#include <optional>
#include <string>

#include "cli/load_model.h"
#include "cli/train_settings.h"
#include "train/step/trainer.h"
#include "trireme/hugging_face.h"

namespace trireme::cli {

struct TrainModel {
  AnyModelConfig config{};
  std::string description{};             ///< the text of its config.json; "" if it is a preset
  std::optional<WeightFiles> weights{};  ///< that it begins with
  /// If it came from a file or with weights: what it was before the settings made a mixture of it.
  std::optional<ModelConfig> before_experts{};
};

/// What the settings name. `run_folder` is that of a run that goes on, or "": what is kept there counts.
[[nodiscard]] NamedModel name_train_model(const TrainSettings& settings,
                                          const std::string& run_folder);

/// The model that the settings ask for, for data of this vocabulary. A preset takes the vocabulary of the data, or
/// of the weights, and the length of the sequences if that is longer than its context; a model from a file stays as
/// it is, but for its experts. A run that `resumes` reads no weights. Throws Error(Usage) if the data has more tokens
/// than the model knows, or if the model has no dropout or experts but should.
[[nodiscard]] TrainModel open_train_model(const TrainSettings& settings, const NamedModel& named,
                                          std::int64_t vocabulary, bool resumes);

/// The model as the trainer has it, for its weights. Throws as check_hugging_face_names.
[[nodiscard]] WeightedModel weighted(const TrainModel& model, const train::Trainer& trainer);

/// Gives the trainer the weights that its model begins with, if there are any; names, shapes and types are checked
/// first. Throws Error(Input) that names a number that is not finite, too.
void begin_with_weights(const TrainModel& model, train::Trainer& trainer);

/// The config.json to be kept with the run, without what the settings say; "" if the model is a preset and needs
/// none.
[[nodiscard]] std::string run_description(const TrainModel& model);

/// "12 tensors of bf16 in models/tiny/model.safetensors"
[[nodiscard]] std::string weights_text(const WeightFiles& files);

}  // namespace trireme::cli
