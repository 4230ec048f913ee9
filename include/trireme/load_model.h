// Resolves a model name or path. Callable from any thread.
#pragma once

#include <string>

#include "trireme/model_kinds.h"

namespace trireme {

/// A model, and the files found next to it.
struct NamedModel {
  AnyModelConfig config{};
  bool is_preset = false;
  std::string description{};  ///< the text of its config.json; "" if there is none
  std::string weights{};      ///< the folder it was loaded from, if it contains weights; else ""
};

/// A path ends in ".json", contains a '/', or is a folder; anything else is a preset.
[[nodiscard]] bool is_model_path(const std::string& model);
/// "tiny" for models/tiny and models/tiny/config.json, "nano" for nano.json; a preset's own name.
[[nodiscard]] std::string model_name(const std::string& model);
/// Reads a language model from a config.json, or from a folder that contains one. Weights are used only when a folder
/// is given. Throws Error(Input) if it is missing or not a model.
[[nodiscard]] NamedModel load_model_file(const std::string& path);
/// The same, or a preset. Throws Error(Usage) if no preset has that name.
[[nodiscard]] NamedModel load_model(const std::string& model);

}  // namespace trireme
