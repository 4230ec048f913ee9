#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/json.h"
#include "model/model_path.h"
#include "model/weight_copy.h"
#include "model/weight_names.h"
#include "tensor/container_size.h"
#include "trireme/error.h"
#include "trireme/hugging_face.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ReadParameter = std::function<std::span<const std::byte>(const ModelParameter&)>;

/// Elements of a parameter that go into a tensor.
struct Source {
  const ModelParameter* parameter = nullptr;
  WeightPiece piece{};
};

/// A tensor to write, and its pieces.
struct Target {
  TensorSpec spec{};
  std::vector<Source> sources{};
};

/// In the order of our parameters, so that each is read once.
std::vector<Target> targets_of(const WeightedModel& model) {
  check_hugging_face_names(model.config, model.parameters);
  const WeightTable& table = weight_table(model.config);
  std::vector<Target> targets;
  std::map<std::string, std::size_t> by_name;
  for (const ModelParameter& parameter : model.parameters) {
    for (WeightPiece& piece : weight_pieces(table, parameter)) {
      const auto [at, is_new] = by_name.try_emplace(piece.tensor, targets.size());
      if (is_new) {
        Target& target = targets.emplace_back();
        target.spec = {piece.tensor, parameter.type.dtype, piece.shape};
      }
      targets[at->second].sources.push_back({&parameter, std::move(piece)});
    }
  }
  return targets;
}

/// Assembles tensors sequentially. A parameter used by several tensors (all experts of a block) is read once.
class TensorMaker {
 public:
  explicit TensorMaker(const ReadParameter& read) : read_(read) {}

  std::span<const std::byte> make(const Target& target) {
    tensor_.resize(container_size(size_of(target.spec)));
    for (const Source& source : target.sources) {
      if (source.parameter != newest_) {
        elements_ = read_(*source.parameter);
        newest_ = source.parameter;
      }
      copy_to_theirs(source.piece, {source.parameter->type.dtype, elements_},
                     {target.spec.dtype, tensor_});
    }
    return tensor_;
  }

 private:
  const ReadParameter& read_;
  const ModelParameter* newest_ = nullptr;
  std::span<const std::byte> elements_;
  std::vector<std::byte> tensor_;
};

/// Splits the tensors into runs of at most this many bytes, or of a single tensor.
std::vector<std::span<const Target>> split_into_files(std::span<const Target> targets,
                                                      Bytes largest) {
  std::vector<std::span<const Target>> files;
  std::size_t begin = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t more = size_of(targets[i].spec).count;
    if (i > begin && bytes + more > largest.count) {
      files.push_back(targets.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += more;
  }
  files.push_back(targets.subspan(begin));
  return files;
}

void write_tensors(const std::string& path, std::span<const Target> targets, TensorMaker& maker) {
  std::vector<TensorSpec> specs;
  specs.reserve(targets.size());
  for (const Target& target : targets) {
    specs.push_back(target.spec);
  }
  const Disk disk;
  OutputFile file(path, disk);
  SafetensorsWriter writer([&](std::span<const std::byte> bytes) { file.write(bytes); },
                           std::move(specs), {{"format", "pt"}});
  for (const Target& target : targets) {
    writer.add(maker.make(target));
  }
  writer.finish();
  file.finish();
}

void write_text(const std::string& path, std::string_view text) {
  const Disk disk;
  OutputFile file(path, disk);
  file.write(text);
  file.finish();
}

void write_weights(const std::string& folder, const WeightedModel& model, const ReadParameter& read,
                   Bytes largest) {
  const std::vector<Target> targets = targets_of(model);
  const std::vector<std::span<const Target>> files = split_into_files(targets, largest);
  TensorMaker maker(read);
  if (files.size() == 1) {
    write_tensors(folder + "/model.safetensors", targets, maker);
    return;
  }
  std::int64_t bytes = 0;
  Json map = Json::object();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    write_tensors(fmt::format("{}/{}", folder, name), files[i], maker);
    for (const Target& target : files[i]) {
      bytes += size_of(target.spec).count;
      map[target.spec.name] = name;
    }
  }
  const Json index{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  write_text(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
}

/// Throws unless the folder exists, or its nearest parent that does can hold new folders.
void require_place_for(const std::string& folder) {
  std::error_code ignored;
  fs::path parent = fs::absolute(folder, ignored);
  while (parent.has_relative_path() && !fs::exists(parent, ignored)) {
    parent = parent.parent_path();
  }
  if (access(parent.c_str(), W_OK) != 0 || !fs::is_directory(parent, ignored)) {
    throw Error(ErrorKind::Usage,
                fmt::format("cannot export to '{}': {}; name another folder", folder,
                            fs::is_directory(parent, ignored)
                                ? fmt::format("'{}' is not writable", parent.string())
                                : fmt::format("'{}' is not a folder", parent.string())));
  }
}

}  // namespace

void check_hugging_face_export(const WeightedModel& model, const HuggingFaceExport& to) {
  (void)targets_of(model);
  (void)hugging_face_config(model.config, to.original_config);
  std::error_code error;
  if (fs::exists(to.folder, error) &&
      (!fs::is_directory(to.folder, error) || !fs::is_empty(to.folder, error))) {
    throw Error(ErrorKind::Usage,
                fmt::format("cannot export to '{}': it exists and is not an empty folder; name a "
                            "new one, so that no model is lost",
                            to.folder));
  }
  require_place_for(to.folder);
}

void save_hugging_face(const WeightedModel& model, const ReadParameter& read,
                       const HuggingFaceExport& to) {
  check_hugging_face_export(model, to);
  const std::string folder = without_trailing_slashes(to.folder);
  const std::string temporary = fmt::format("{}.{}.tmp", folder, ::getpid());
  const Disk disk;
  std::error_code ignored;
  fs::create_directories(folder_of(folder), ignored);  // if it fails, the next line reports why
  disk.make_folder(temporary);
  try {
    write_text(temporary + "/config.json", hugging_face_config(model.config, to.original_config));
    write_weights(temporary, model, read, to.largest_file);
    disk.sync_folder(temporary);
    disk.rename(temporary, folder);
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
  disk.sync_folder(folder_of(folder));
}

}  // namespace trireme
