#include "trireme/load_model.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "model/model_path.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/hugging_face.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_preset(const std::string& name) {
  const std::vector<std::string> names = preset_any_model_names();
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_model_path(const std::string& model) {
  return model.ends_with(".json") || model.find('/') != std::string::npos ||
         (!is_preset(model) && is_folder(model));
}

std::string model_name(const std::string& model) {
  if (!is_model_path(model)) {
    return model;
  }
  std::error_code ignored;
  const fs::path whole =
      fs::weakly_canonical(fs::absolute(without_trailing_slashes(model), ignored), ignored);
  std::string name = whole.filename() == "config.json" ? whole.parent_path().filename().string()
                     : whole.extension() == ".json"    ? whole.stem().string()
                                                       : whole.filename().string();
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    c = plain || c == '.' ? c : '-';
  }
  return name.empty() ? "model" : name;
}

NamedModel load_model_file(const std::string& named) {
  const std::string path = without_trailing_slashes(named);
  const bool folder = is_folder(path);
  const std::string file = folder ? path + "/config.json" : path;
  NamedModel model;
  model.description = read_file(file);
  ModelConfig config = parse_hugging_face_config(model.description, file);
  config.name = model_name(path);
  model.config = std::move(config);
  if (folder && WeightFiles::are_in(path)) {
    model.weights = path;
  }
  return model;
}

NamedModel load_model(const std::string& model) {
  if (is_model_path(model)) {
    return load_model_file(model);
  }
  NamedModel preset;
  preset.is_preset = true;
  try {
    preset.config = preset_any_model(model);
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{} (or give a config.json, or the folder of one)", error.what()));
  }
  return preset;
}

}  // namespace trireme
