// Finding the model that a command line names.
#pragma once

#include <string>

#include "trireme/model_kinds.h"

namespace trireme::cli {

/// A model, and what was found beside it.
struct NamedModel {
  AnyModelConfig config{};
  std::string description{};  ///< the text of its config.json; "" if it is a preset
  std::string weights{};      ///< the folder that it was named by, if weights are in it; else ""
};

/// A path ends in ".json", contains a '/', or is a folder; all else is a preset.
[[nodiscard]] bool is_model_path(const std::string& model);
/// "tiny" for models/tiny and models/tiny/config.json, "nano" for nano.json; a preset's own name.
[[nodiscard]] std::string model_name(const std::string& model);
/// The config.json of a path: a language model. Throws Error(Input) if it is no model, Error(System) if it cannot be read. A folder
/// brings the weights that are in it, a config.json brings none.
[[nodiscard]] NamedModel load_model_file(const std::string& path);
/// The same, or a preset. Throws Error(Usage) if there is none of that name.
[[nodiscard]] NamedModel load_model(const std::string& model);

}  // namespace trireme::cli
