// Models in Hugging Face format: a config.json that describes the model, and safetensors files with its weights, for
// the families GPT-2, Llama and Mixtral. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/model_kinds.h"
#include "trireme/safetensors.h"

namespace trireme {

/// Parses a config.json; the model is named after its family. Missing fields get the family's defaults, fields that do
/// not change the model are ignored. Throws Error(Input) "WHAT: rope_scaling is {…}; …" on a field that is not
/// supported or has the wrong type. Dropout is 0: it is a training setting. No token is dropped (capacity_factor 0)
/// unless "capacity_factor" says otherwise.
[[nodiscard]] ModelConfig parse_hugging_face_config(std::string_view text, std::string_view what);

/// The config.json of a model. Given the `original` that it was read from, keeps fields that do not describe the model
/// (begin and end tokens, …). Throws Error(Usage) if no family has such a model.
[[nodiscard]] std::string hugging_face_config(const ModelConfig& config,
                                              std::string_view original = {});

/// Tensors of one safetensors file, or of several listed in an index. Opening reads only the headers; the files must
/// not change while this object lives.
class WeightFiles {
 public:
  struct Tensor {
    TensorView view;
    std::string file;
  };

  /// A *.safetensors file, a *.index.json, or a folder with a model.safetensors or model.safetensors.index.json. Throws
  /// Error(Input) naming the file and the tensor if a file is missing or damaged, or a tensor is in two files or not in
  /// the file that the index names.
  explicit WeightFiles(const std::string& path);
  /// Whether a folder contains such a file.
  [[nodiscard]] static bool are_in(const std::string& folder);

  /// The file, or the index of several.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::map<std::string, Tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const Tensor* find(const std::string& name) const;

 private:
  void add(const std::string& file);
  void add_index();

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor> tensors_;
};

/// How many tokens the embedding of these weights has, if the weights have this family's embedding tensor.
[[nodiscard]] std::optional<std::int64_t> vocabulary_of(const WeightFiles& files,
                                                        const ModelConfig& config);

/// A model and its weights' layout: its config, and the parameters that make_model gave it.
struct WeightedModel {
  ModelConfig config{};
  std::vector<ModelParameter> parameters{};
};

/// A Hugging Face tensor, and how it maps to one of our parameters (see weight_names.h).
struct WeightPiece;

/// Throws Error(Usage) naming the parameters that no family has, with * for a layer's number: shared experts,
/// mixture-of-depths routers, everything in a conv net, …
void check_hugging_face_names(const AnyModelConfig& config,
                              std::span<const ModelParameter> parameters);

/// The weights of a model, read from files.
class HuggingFaceWeights {
 public:
  /// Checks all names and shapes. Throws Error(Input) "FILE: tensor 'h.0.ln_1.weight' …" if a tensor is missing, has
  /// the wrong shape or a type that is not floating-point, or belongs to no parameter; Error(Usage) as
  /// check_hugging_face_names does. Names may omit the family's prefix ("transformer." or "model."). The files must
  /// outlive this object.
  HuggingFaceWeights(const WeightFiles& files, WeightedModel model);
  ~HuggingFaceWeights();
  HuggingFaceWeights(const HuggingFaceWeights&) = delete;
  HuggingFaceWeights& operator=(const HuggingFaceWeights&) = delete;

  /// The elements of a parameter, converted to its type. Throws Error(Usage) if the model has no parameter of that
  /// name.
  [[nodiscard]] HostBuffer read(const std::string& parameter) const;

 private:
  void check_piece(const WeightPiece& piece) const;
  void check_head() const;
  void check_rest() const;

  const WeightFiles& files_;
  WeightedModel model_;
  std::map<std::string, std::vector<WeightPiece>> pieces_;
};

struct HuggingFaceExport {
  std::string folder{};               ///< must be empty or not exist
  std::string original_config{};      ///< see hugging_face_config
  Bytes largest_file{5'000'000'000};  ///< larger models are split into several files with an index
};

/// Throws Error(Usage) if save_hugging_face would, so that the problem shows up before training.
void check_hugging_face_export(const WeightedModel& model, const HuggingFaceExport& to);

/// Writes config.json and model.safetensors (or several files and their index): all of it or nothing. `read` returns
/// the elements of a parameter, which need to live only until the next call. Throws Error(Usage) if no family has such
/// a model or the folder is not empty, Error(System) if writing fails.
void save_hugging_face(const WeightedModel& model,
                       const std::function<std::span<const std::byte>(const ModelParameter&)>& read,
                       const HuggingFaceExport& to);

}  // namespace trireme
