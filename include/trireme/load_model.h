// Finding the model that a name or a path stands for. Any thread.
#pragma once

#include <string>

#include "trireme/model_kinds.h"

namespace trireme {

/// A model, and what was found beside it.
struct NamedModel {
  AnyModelConfig config{};
  bool is_preset = false;
  std::string description{};  ///< the text of its config.json; "" if there is none
  std::string weights{};      ///< the folder it was named by, if that holds weights; else ""
};

/// A path ends in ".json", contains a '/', or is a folder; anything else is a preset.
[[nodiscard]] bool is_model_path(const std::string& model);
/// "tiny" for models/tiny and models/tiny/config.json, "nano" for nano.json; a preset's own name.
[[nodiscard]] std::string model_name(const std::string& model);
/// Reads a config.json, or the one in a folder: a language model. A folder brings the weights in it, a config.json
/// brings none. Throws Error(Input) if it is no model, Error(System) if it cannot be read.
[[nodiscard]] NamedModel load_model_file(const std::string& path);
/// The same, or a preset. Throws Error(Usage) if there is none of that name.
[[nodiscard]] NamedModel load_model(const std::string& model);

}  // namespace trireme
