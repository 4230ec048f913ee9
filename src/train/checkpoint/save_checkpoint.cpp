// Crash safety comes from the order of operations, with a sync after each: write the contents, rename the checkpoint
// into place, update `latest`, remove old checkpoints.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

std::string join(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

/// Creates the folder and its parents.
void make_folders(const std::string& path, const Disk& disk) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) {
    return;
  }
  make_folders(std::filesystem::path(path).parent_path().string(), disk);
  disk.make_folder(path);
  disk.sync_folder(folder_of(path));
}

/// Removes leftovers of a process that was killed during a save.
void clean_up(const std::string& folder, const Disk& disk) {
  for (const std::string& name : names_in(folder)) {
    const bool ours = name.starts_with("step-") || name.starts_with(kLatestFile);
    if (ours && name.ends_with(kTemporary)) {
      disk.remove(join(folder, name));
    } else if (ours && name.ends_with(kReplaced)) {
      const std::string place = join(folder, name.substr(0, name.size() - kReplaced.size()));
      if (path_exists(place)) {
        disk.remove(join(folder, name));
      } else {
        disk.rename(join(folder, name), place);
      }
    }
  }
}

ManifestFile write_tensors(const std::string& folder, std::string_view name,
                           const TensorSet& tensors, const Disk& disk) {
  OutputFile file(join(folder, name), disk);
  Checksum checksum;
  std::int64_t size = 0;
  SafetensorsWriter writer(
      [&](std::span<const std::byte> bytes) {
        file.write(bytes);
        checksum.add(bytes);
        size += static_cast<std::int64_t>(bytes.size());
      },
      tensors.specs);
  std::vector<ManifestTensor> hashes;
  hashes.reserve(tensors.specs.size());
  for (std::size_t i = 0; i < tensors.specs.size(); ++i) {
    const std::span<const std::byte> elements = tensors.read(i);
    writer.add(elements);
    hashes.push_back({.name = tensors.specs[i].name, .xxh3 = checksum_text(checksum_of(elements))});
  }
  writer.finish();
  file.finish();
  return {.name = std::string(name),
          .bytes = size,
          .xxh3 = checksum_text(checksum.value()),
          .tensors = std::move(hashes)};
}

void write_content(const std::string& folder, const CheckpointState& state, const Disk& disk) {
  disk.make_folder(folder);
  Manifest manifest{.info = state.info, .files = {}};
  manifest.files.push_back(write_tensors(folder, kModelFile, state.model, disk));
  if (state.optimizer) {
    manifest.files.push_back(write_tensors(folder, kOptimizerFile, *state.optimizer, disk));
  }
  OutputFile file(join(folder, kManifestFile), disk);
  file.write(to_text(manifest));
  file.finish();
  disk.sync_folder(folder);
}

/// rename() cannot replace a non-empty folder, so the old one is first moved to a name that load_latest checks too.
void put_in_place(const std::string& temporary, const std::string& place, const Disk& disk) {
  if (path_exists(place)) {
    disk.rename(place, place + std::string(kReplaced));
  }
  disk.rename(temporary, place);
  disk.sync_folder(folder_of(place));
}

/// Renames atomically before deleting, so that a half-removed checkpoint never looks like a damaged one.
void remove_step(const std::string& folder, const std::string& name, const Disk& disk) {
  const std::string doomed = join(folder, name + std::string(kTemporary));
  disk.rename(join(folder, name), doomed);
  disk.remove(doomed);
}

void remove_old(const std::string& folder, std::int64_t newest, int keep, const Disk& disk) {
  disk.remove(join(folder, step_name(newest) + std::string(kReplaced)));
  int kept = 1;
  for (const SavedStep& saved : list_steps(folder)) {
    if (saved.step < newest && ++kept > keep) {
      remove_step(folder, saved.name, disk);
    }
  }
}

void remove_quietly(const std::string& path) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void check(const CheckpointState& state, const SaveOptions& options) {
  if (options.keep < 1) {
    throw Error(ErrorKind::Usage,
                fmt::format("checkpoint: cannot keep {}; at least 1", options.keep));
  }
  (void)to_text(Manifest{.info = state.info, .files = {}});
}

}  // namespace

TensorSet tensor_set(std::vector<TensorView> tensors) {
  TensorSet set;
  for (const TensorView& tensor : tensors) {
    set.specs.push_back(tensor.spec);
  }
  set.read = [tensors = std::move(tensors)](std::size_t i) { return tensors.at(i).bytes; };
  return set;
}

std::string save_checkpoint(const std::string& folder, const CheckpointState& state,
                            const SaveOptions& options) {
  check(state, options);
  const Disk& disk = options.disk;
  const std::string name = step_name(state.info.step);
  std::string place = join(folder, name);
  const std::string temporary = place + std::string(kTemporary);
  make_folders(folder, disk);
  clean_up(folder, disk);
  try {
    write_content(temporary, state, disk);
    put_in_place(temporary, place, disk);
  } catch (...) {
    remove_quietly(temporary);
    throw;
  }
  replace_file(join(folder, kLatestFile), name + "\n", disk);
  remove_old(folder, state.info.step, options.keep, disk);
  return place;
}

}  // namespace trireme::train
