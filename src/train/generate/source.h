// A trained model to generate with or to evaluate: its description, weights and text. Used once before the ranks start,
// and by each rank. Callable from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "train/generate/text_codec.h"
#include "train/step/sharded_execution.h"
#include "trireme/generate.h"
#include "trireme/model.h"
#include "trireme/train_settings.h"

namespace trireme::train {

struct ModelSource {
  ModelConfig config{};
  std::string name{};                       ///< for display: the folder
  std::optional<TrainSettings> settings{};  ///< of the run, if it is one
  std::int64_t step = 0;                    ///< of the run's checkpoint
  std::shared_ptr<const TextCodec> codec{};
  /// The elements of a parameter, which are mapped from files: cheap to call on every rank.
  std::function<HostBuffer(const ModelParameter&)> read{};
};

/// Opens the run's newest checkpoint, or the folder. Throws Error(Usage) if the options name neither or both, or a model
/// that is not a language model; Error(Input or System) if files are missing or damaged.
[[nodiscard]] ModelSource open_model_source(const ModelSourceOptions& options);

/// Writes all parameters. Collective only in that every rank calls it.
void load_parameters(const ModelSource& source, const std::vector<ModelParameter>& parameters,
                     ShardedExecution& execution);

}  // namespace trireme::train
