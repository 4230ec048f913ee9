#include "train/generate/source.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "train/checkpoint/checkpoint.h"
#include "train/run/run_model.h"
#include "trireme/error.h"
#include "trireme/hugging_face.h"
#include "trireme/load_model.h"
#include "trireme/message.h"
#include "trireme/train_data.h"
#include "trireme/valid.h"

namespace trireme {

std::vector<std::string> problems(const ModelSourceOptions& options) {
  if (options.run.empty() == options.model.empty()) {
    return {"give a trained model: either --run FOLDER or --model FOLDER"};
  }
  return {};
}

namespace train {
namespace {

/// The number of rows of the first of these tensors that the file has; 0 if it has none.
std::int64_t rows_of(const SafetensorsFile& file, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const TensorView* tensor = file.find(name)) {
      return tensor->spec.shape.dim(0);
    }
  }
  return 0;
}

const ModelConfig& language_model(const AnyModelConfig& config) {
  const auto* language = std::get_if<ModelConfig>(&config);
  require(language != nullptr,
          fmt::format("{} is not a language model; there is no text to generate", name_of(config)));
  return *language;
}

bool has_only_tokens(const TrainSettings& settings) {
  return std::ranges::all_of(settings.data,
                             [](const std::string& file) { return file.ends_with(".bin"); });
}

std::unique_ptr<TextCodec> codec_of_run(const TrainSettings& settings, const std::string& run,
                                        const std::string& tokenizer) {
  if (!tokenizer.empty()) {
    return parsed("--tokenizer", tokenizer, make_tokenizer_codec);
  }
  if (const std::string own = find_tokenizer(settings, run); !own.empty()) {
    return make_tokenizer_codec(own);
  }
  if (settings.data.empty()) {
    return make_language_codec();
  }
  return has_only_tokens(settings) ? make_number_codec() : make_byte_codec();
}

std::unique_ptr<TextCodec> codec_of_folder(const std::string& folder, const ModelConfig& config,
                                           const std::string& tokenizer) {
  TrainSettings settings;
  settings.model = folder;
  if (!tokenizer.empty()) {
    return parsed("--tokenizer", tokenizer, make_tokenizer_codec);
  }
  if (const std::string own = find_tokenizer(settings); !own.empty()) {
    return make_tokenizer_codec(own);
  }
  return config.vocabulary == 256 ? make_byte_codec() : make_number_codec();
}

HostBuffer copy_of(const TensorView& tensor, const ModelParameter& parameter) {
  if (tensor.spec.dtype != parameter.type.dtype || tensor.spec.shape != parameter.type.shape) {
    throw Error(ErrorKind::Input,
                fmt::format("the checkpoint's {} is {}, the model's is {}", parameter.name,
                            to_text(TensorType{tensor.spec.dtype, tensor.spec.shape}),
                            to_text(parameter.type)));
  }
  HostBuffer buffer(parameter.type.dtype, parameter.type.shape.element_count());
  std::ranges::copy(tensor.bytes, buffer.raw().begin());
  return buffer;
}

/// The checkpoint with the lowest validation loss if kept, else the newest; nullopt if there is none.
std::optional<LoadedCheckpoint> load_trained(const TrainSettings& settings,
                                             const std::string& run) {
  auto best = settings.keep_best ? load_latest(run + "/best") : std::nullopt;
  return best ? std::move(best) : load_latest(run + "/checkpoints");
}

ModelSource open_run(const ModelSourceOptions& options) {
  const TrainSettings settings = parsed("--run", options.run, load_settings);
  auto loaded = load_trained(settings, options.run);
  if (!loaded) {
    throw Error(ErrorKind::Input, fmt::format("{} has no checkpoint yet", options.run));
  }
  const auto checkpoint = std::make_shared<const Checkpoint>(std::move(loaded->checkpoint));
  const std::int64_t vocabulary =
      rows_of(checkpoint->model, {"wte.weight", "model.embed_tokens.weight"});
  const RunModel model =
      open_run_model(settings, name_train_model(settings, options.run), vocabulary, true);
  ModelSource source;
  source.config = language_model(model.config);
  source.name = options.run;
  source.settings = settings;
  source.step = checkpoint->info.step;
  source.codec = codec_of_run(settings, options.run, options.tokenizer);
  source.read = [checkpoint](const ModelParameter& parameter) {
    return copy_of(checkpoint->model.at(parameter.name), parameter);
  };
  return source;
}

/// The weights refer to the files.
struct FolderWeights {
  WeightFiles files;
  HuggingFaceWeights weights;

  FolderWeights(const std::string& path, const WeightedModel& model)
      : files(path), weights(files, model) {}
};

ModelSource open_folder(const ModelSourceOptions& options) {
  const NamedModel named = parsed("--model", options.model, load_model);
  require(!named.weights.empty(),
          fmt::format("--model: '{}' has no weights; give a folder with config.json and "
                      "model.safetensors, or a run with --run",
                      options.model));
  ModelSource source;
  source.config = language_model(named.config);
  source.config.dtype = DType::F32;
  source.name = options.model;
  source.codec = codec_of_folder(options.model, source.config, options.tokenizer);
  const Model model = make_model(source.config, {1, 1});
  check_hugging_face_names(source.config, model.parameters);
  const auto weights = std::make_shared<const FolderWeights>(
      named.weights, WeightedModel{source.config, model.parameters});
  source.read = [weights](const ModelParameter& parameter) {
    return weights->weights.read(parameter.name);
  };
  return source;
}

}  // namespace

ModelSource open_model_source(const ModelSourceOptions& options) {
  require_valid(options);
  return options.run.empty() ? open_folder(options) : open_run(options);
}

void load_parameters(const ModelSource& source, const std::vector<ModelParameter>& parameters,
                     ShardedExecution& execution) {
  for (const ModelParameter& parameter : parameters) {
    execution.write(parameter.name, source.read(parameter).raw());
  }
}

}  // namespace train
}  // namespace trireme
