#include <filesystem>

#include <fmt/format.h>

#include "base/disk.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "model/weight_names.h"
#include "trireme/error.h"
#include "trireme/hugging_face.h"
#include "trireme/message.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "/model.safetensors";
constexpr const char* kIndex = "/model.safetensors.index.json";

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The weight file of a folder; other paths are unchanged.
std::string file_at(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return path;
  }
  for (const char* name : {kFile, kIndex}) {
    if (path_exists(path + name)) {
      return path + name;
    }
  }
  throw Error(ErrorKind::Input,
              fmt::format("{} has no model.safetensors and no model.safetensors.index.json", path));
}

/// Maps tensors to files, from an index. Files must be next to it: rejects names that lead elsewhere.
std::map<std::string, std::string> weight_map(const std::string& path) {
  const Json json = parse_json(MappedFile(path).text(), path);
  const Json* map = json.find("weight_map");
  if (map == nullptr || !map->is_object()) {
    throw Error(ErrorKind::Input, fmt::format("{}: has no weight_map {{ … }}", path));
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) {
      throw Error(ErrorKind::Input, fmt::format("{}: tensor {}: {} is not a file next to the index",
                                                path, in_quotes(tensor), in_quotes(file.dump())));
    }
    files.emplace(tensor, folder_of(path) + "/" + name);
  }
  return files;
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(file_at(path)) {
  if (path_.ends_with(".json")) {
    add_index();
  } else {
    add(path_);
  }
}

bool WeightFiles::are_in(const std::string& folder) {
  return path_exists(folder + kFile) || path_exists(folder + kIndex);
}

void WeightFiles::add(const std::string& file) {
  const SafetensorsFile& opened = files_.emplace_back(file);
  for (const TensorView& view : opened.tensors()) {
    const auto [at, is_new] = tensors_.try_emplace(view.spec.name, Tensor{view, file});
    if (!is_new) {
      throw Error(ErrorKind::Input, fmt::format("{}: tensor {} is in {} too", file,
                                                in_quotes(view.spec.name), at->second.file));
    }
  }
}

void WeightFiles::add_index() {
  const std::map<std::string, std::string> places = weight_map(path_);
  std::map<std::string, bool> added;
  for (const auto& [tensor, file] : places) {
    if (added.try_emplace(file, true).second) {
      add(file);
    }
  }
  for (const auto& [tensor, file] : places) {
    const Tensor* found = find(tensor);
    if (found == nullptr || found->file != file) {
      throw Error(ErrorKind::Input,
                  fmt::format("{}: tensor {} is missing from {}, although the index lists it there",
                              path_, in_quotes(tensor), file));
    }
  }
}

const WeightFiles::Tensor* WeightFiles::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

std::optional<std::int64_t> vocabulary_of(const WeightFiles& files, const ModelConfig& config) {
  const WeightTable& table = weight_table(config);
  for (const std::string_view name :
       {table.embedding, table.embedding.substr(table.prefix.size())}) {
    const WeightFiles::Tensor* tensor = files.find(std::string(name));
    if (tensor != nullptr && tensor->view.spec.shape.rank() == 2) {
      return tensor->view.spec.shape.dim(0);
    }
  }
  return std::nullopt;
}

}  // namespace trireme
