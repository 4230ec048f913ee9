// The model of a training run: what describes it, what its first weights are, and where it goes afterwards.
#pragma once

#include <optional>
#include <string>

#include "cli/train_settings.h"
#include "train/trainer.h"
#include "trireme/hugging_face.h"

namespace trireme::cli {

struct TrainModel {
  ModelConfig config{};
  std::string description{};             ///< the text of its config.json; "" if it is a preset
  std::optional<WeightFiles> weights{};  ///< that it begins with
};

/// The model that the settings ask for, for data of this vocabulary. A preset takes the vocabulary of the data, or
/// of the weights, and the length of the sequences if that is longer than its context; a model from a file stays as
/// it is. `run_folder` is that of a run that goes on, or "": what is kept there counts, and weights are not read.
/// Throws Error(Usage) if the data has more tokens than the model knows.
[[nodiscard]] TrainModel open_train_model(const TrainSettings& settings, std::int64_t vocabulary,
                                          const std::string& run_folder);

/// The model as the trainer has it, for its weights.
[[nodiscard]] WeightedModel weighted(const TrainModel& model, const train::Trainer& trainer);

/// Gives the trainer the weights that its model begins with, if there are any; all of it is checked first.
void begin_with_weights(const TrainModel& model, train::Trainer& trainer);

/// The config.json to be kept with the run; "" if the model is a preset and needs none.
[[nodiscard]] std::string run_description(const TrainModel& model);

/// "12 tensors of bf16 in models/tiny/model.safetensors"
[[nodiscard]] std::string weights_text(const WeightFiles& files);

}  // namespace trireme::cli
