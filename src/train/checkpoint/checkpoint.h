// Checkpoints: everything a run needs to resume, saved so that a crash at any moment loses nothing.
//
//   FOLDER/step-000123/model.safetensors
//                      optimizer.safetensors   if there is one
//                      manifest.json           step, seed, data position, config; size and checksum of each file
//   FOLDER/latest                              the name of the newest complete checkpoint
//
// One process at a time may save to a folder. Any process may load at the same time, as long as the checkpoint it loads
// is not pruned.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/disk.h"
#include "train/checkpoint/manifest.h"
#include "trireme/safetensors.h"

namespace trireme::train {

/// Tensors to save, which need not all be in memory at once.
struct TensorSet {
  std::vector<TensorSpec> specs;
  /// Returns the elements of specs[i]. Called once per tensor, in order; the result is not used after the next call.
  std::function<std::span<const std::byte>(std::size_t i)> read;
};

/// Tensors in memory, which must stay there until they are saved.
[[nodiscard]] TensorSet tensor_set(std::vector<TensorView> tensors);

struct CheckpointState {
  CheckpointInfo info;
  TensorSet model;
  std::optional<TensorSet> optimizer;
};

struct SaveOptions {
  int keep = 3;    ///< number of checkpoints to keep, including the new one; at least 1
  Disk disk = {};  ///< for tests: called before every change to the disk
};

/// Saves to FOLDER/step-…, creating the folder if necessary, and returns its path. Writes and syncs everything under a
/// temporary name, renames it, and updates `latest`; only then prunes steps beyond `keep`. Replaces a checkpoint of the
/// same step and keeps later steps. If it throws (Error(System), or an exception of `read`) or the process is killed,
/// earlier checkpoints remain intact; the next save cleans up after a killed process.
std::string save_checkpoint(const std::string& folder, const CheckpointState& state,
                            const SaveOptions& options = {});

/// A complete checkpoint. The tensors are mapped, not copied; the files must not change.
struct Checkpoint {
  std::string path;
  CheckpointInfo info;
  SafetensorsFile model;
  std::optional<SafetensorsFile> optimizer;
};

/// Loads FOLDER/step-… after reading all of it to verify sizes and checksums. Throws Error(Input) that names the file
/// and the problem.
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path);

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::string warning;  ///< to show the user: why this one was loaded; "" if all is well
};

/// Loads the checkpoint that `latest` names or, if that is damaged, the complete one with the highest step. Returns
/// nullopt if the folder has no checkpoint or does not exist. Throws Error(Input) if there are checkpoints but none is
/// complete.
[[nodiscard]] std::optional<LoadedCheckpoint> load_latest(const std::string& folder);

}  // namespace trireme::train
