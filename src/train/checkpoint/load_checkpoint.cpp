#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/mapped_file.h"
#include "base/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/input_error.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

std::string file_in(const std::string& folder, std::string_view name) {
  std::string path = fmt::format("{}/{}", folder, name);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw_input_error(path, "is missing");
  }
  return path;
}

const ManifestFile* find_file(const Manifest& manifest, std::string_view name) {
  const auto at = std::ranges::find(manifest.files, name, &ManifestFile::name);
  return at == manifest.files.end() ? nullptr : &*at;
}

/// Locates the damage in a file, as far as its tensors' hashes allow.
std::string damaged_part(const std::string& path, const ManifestFile& expected) {
  std::vector<std::string> names;
  try {
    const SafetensorsFile file(path);
    for (const ManifestTensor& tensor : expected.tensors) {
      const TensorView* found = file.find(tensor.name);
      if (found == nullptr || checksum_text(checksum_of(found->bytes)) != tensor.xxh3) {
        names.push_back(tensor.name);
      }
    }
  } catch (const Error&) {
    names.clear();
  }
  if (names.empty()) {
    return "in its header";
  }
  constexpr std::size_t kShown = 4;
  const std::size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return fmt::format("in the tensor{} {}{}", names.size() == 1 ? "" : "s", fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

/// Verifies the file against the manifest before trusting its header.
SafetensorsFile open_checked(const std::string& folder, const ManifestFile& expected) {
  const std::string path = file_in(folder, expected.name);
  {
    const MappedFile file(path);
    if (std::cmp_not_equal(file.bytes().size(), expected.bytes)) {
      throw_input_error(path, fmt::format("has {} bytes; the manifest says {}", file.bytes().size(),
                                          expected.bytes));
    }
    const std::string xxh3 = checksum_text(checksum_of(file.bytes()));
    if (xxh3 != expected.xxh3) {
      throw_input_error(path, fmt::format("is damaged {}: its checksum is {}; the manifest says {}",
                                          damaged_part(path, expected), xxh3, expected.xxh3));
    }
  }
  return SafetensorsFile(path);
}

/// The name in `latest`, or "" plus a remark on the problem.
std::string read_latest(const std::string& folder, std::vector<std::string>& remarks) {
  const std::string path = fmt::format("{}/{}", folder, kLatestFile);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    remarks.push_back(fmt::format("{} is missing", path));
    return "";
  }
  const MappedFile file(path);
  return std::string(trim(file.text().substr(0, 100)));
}

/// The step that `latest` names, then the others in descending order.
std::vector<SavedStep> in_order(std::vector<SavedStep> steps, const std::string& folder,
                                std::vector<std::string>& remarks) {
  const std::string latest = read_latest(folder, remarks);
  const auto named = std::ranges::find_if(
      steps, [&](const SavedStep& saved) { return step_name(saved.step) == latest; });
  if (named != steps.end()) {
    if (named != steps.begin()) {
      remarks.push_back(fmt::format("{} is there too, but {}/{} names {}", steps.front().name,
                                    folder, kLatestFile, latest));
    }
    std::rotate(steps.begin(), named, named + 1);
  } else if (!latest.empty()) {
    remarks.push_back(fmt::format("{}/{} names {}, which does not exist", folder, kLatestFile,
                                  in_quotes(latest)));
  }
  return steps;
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path) {
  const std::string manifest_path = file_in(path, kManifestFile);
  const Manifest manifest = parse_manifest(MappedFile(manifest_path).text(), manifest_path);
  const ManifestFile* model = find_file(manifest, kModelFile);
  const ManifestFile* optimizer = find_file(manifest, kOptimizerFile);
  if (model == nullptr) {
    throw_input_error(manifest_path, fmt::format("does not list {}", kModelFile));
  }
  return {.path = path,
          .info = manifest.info,
          .model = open_checked(path, *model),
          .optimizer =
              optimizer == nullptr ? std::nullopt : std::optional(open_checked(path, *optimizer))};
}

std::optional<LoadedCheckpoint> load_latest(const std::string& folder) {
  std::vector<SavedStep> steps = list_steps(folder);
  if (steps.empty()) {
    std::error_code ignored;
    if (std::filesystem::exists(fmt::format("{}/{}", folder, kLatestFile), ignored)) {
      throw_input_error(folder, fmt::format("has a file '{}' and no checkpoint", kLatestFile));
    }
    return std::nullopt;
  }
  std::vector<std::string> remarks;
  for (const SavedStep& saved : in_order(std::move(steps), folder, remarks)) {
    try {
      Checkpoint checkpoint = load_checkpoint(fmt::format("{}/{}", folder, saved.name));
      if (!remarks.empty()) {
        remarks.push_back(fmt::format("loaded {}, which is intact", checkpoint.path));
      }
      return LoadedCheckpoint{.checkpoint = std::move(checkpoint),
                              .warning = fmt::format("{}", fmt::join(remarks, "; "))};
    } catch (const Error& error) {
      remarks.emplace_back(error.what());
    }
  }
  throw_input_error(folder, fmt::format("no checkpoint is intact: {}", fmt::join(remarks, "; ")));
}

}  // namespace trireme::train
