// Models in the form of Hugging Face: a config.json that describes one, and safetensors files with its weights,
// of the families GPT-2, Llama and Mixtral. Any thread.
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

/// Reads a config.json; the model is named after its family. Fields that are missing have the family's defaults,
/// fields that do not change the model are ignored. Throws Error(Input) "WHAT: rope_scaling is {…}; …" on one
/// whose meaning is not implemented, or that is not of its type. Dropout is 0: it belongs to the training.
/// Tokens find a place with all of their experts (capacity_factor 0) unless "capacity_factor" says otherwise.
[[nodiscard]] ModelConfig parse_hugging_face_config(std::string_view text, std::string_view what);

/// The config.json of a model. With the `original` that it was read from, fields that say nothing of the model
/// (tokens that begin or end a text, …) are kept. Throws Error(Usage) if none of the families has such a model.
[[nodiscard]] std::string hugging_face_config(const ModelConfig& config,
                                              std::string_view original = {});

/// Tensors of one safetensors file, or of several that an index names. Opening reads the headers only; the files
/// must stay as they are while this lives.
class WeightFiles {
 public:
  struct Tensor {
    TensorView view;
    std::string file;
  };

  /// A *.safetensors file, a *.index.json, or a folder with a model.safetensors or model.safetensors.index.json.
  /// Throws Error(Input) that names the file and the tensor if one is damaged, a tensor is not where the index has
  /// it or is in two files; Error(System) if one cannot be read.
  explicit WeightFiles(const std::string& path);
  /// Whether a folder has such a file.
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

/// How many tokens the embedding of these weights has, if it is where this family keeps it.
[[nodiscard]] std::optional<std::int64_t> vocabulary_of(const WeightFiles& files,
                                                        const ModelConfig& config);

/// A model as its weights see it: what describes it, and the parameters that make_model gave it.
struct WeightedModel {
  ModelConfig config{};
  std::vector<ModelParameter> parameters{};
};

/// A tensor of theirs, and how it lies in a parameter of ours (see weight_names.h).
struct WeightPiece;

/// Throws Error(Usage) that names the parameters that none of the families has, with * for a layer's number: experts
/// that all tokens share, routers of a mixture of depths, all of a conv net, …
void check_hugging_face_names(const AnyModelConfig& config,
                              std::span<const ModelParameter> parameters);

/// The weights of a model, out of such files.
class HuggingFaceWeights {
 public:
  /// Looks at all names and shapes. Throws Error(Input) "FILE: tensor 'h.0.ln_1.weight' …" if one is missing, has
  /// another shape or no floating-point type, or belongs to no parameter; Error(Usage) as check_hugging_face_names.
  /// Names may lack the family's prefix ("transformer." or "model."). The files must outlive this.
  HuggingFaceWeights(const WeightFiles& files, WeightedModel model);
  ~HuggingFaceWeights();
  HuggingFaceWeights(const HuggingFaceWeights&) = delete;
  HuggingFaceWeights& operator=(const HuggingFaceWeights&) = delete;

  /// The elements of a parameter, in its type. Throws Error(Usage) if the model has none of that name.
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
  std::string folder{};               ///< must not be there, or be empty
  std::string original_config{};      ///< see hugging_face_config
  Bytes largest_file{5'000'000'000};  ///< what is more goes to several, with an index
};

/// Throws Error(Usage) if save_hugging_face would: for a look before the training.
void check_hugging_face_export(const WeightedModel& model, const HuggingFaceExport& to);

/// Writes config.json and model.safetensors (or several and their index): all of it, or nothing. `read` gives the
/// elements of a parameter, which are not used after the next is asked for. Throws Error(Usage) if no family has
/// such a model or the folder is not empty, Error(System) if the disk refuses.
void save_hugging_face(const WeightedModel& model,
                       const std::function<std::span<const std::byte>(const ModelParameter&)>& read,
                       const HuggingFaceExport& to);

}  // namespace trireme
