// Checkpoints: everything a run needs to resume, saved so that a crash at any moment loses nothing.
//
//   FOLDER/step-000123/model.safetensors
//                      optimizer.safetensors   if there is one
//                      manifest.json           step, seed, place in the data, config; size and checksum of each file
//   FOLDER/latest                              the name of the newest whole one
//
// One process at a time may save into a folder; any may load meanwhile, as long as what it loads is not
// removed as too old.
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
  /// The elements of specs[i]; asked for once each, in order, and not used after the next is asked for.
  std::function<std::span<const std::byte>(std::size_t i)> read;
};

/// Tensors that are in memory, and stay there until they are saved.
[[nodiscard]] TensorSet tensor_set(std::vector<TensorView> tensors);

struct CheckpointState {
  CheckpointInfo info;
  TensorSet model;
  std::optional<TensorSet> optimizer;
};

struct SaveOptions {
  int keep = 3;    ///< how many checkpoints stay, the new one counted; at least 1
  Disk disk = {};  ///< for tests: sees every change before it is made
};

/// Saves into FOLDER/step-…, which is made if it is not there, and gives its path. Everything is written
/// and synced under another name first, renamed, and then named in `latest`; only after that are older
/// steps beyond `keep` removed. A checkpoint of the same step is replaced, later steps stay. If it throws
/// (Error(System), or what `read` throws), or the process is killed, the checkpoints from before are there
/// still; what a killed process left behind is removed by the next save.
std::string save_checkpoint(const std::string& folder, const CheckpointState& state,
                            const SaveOptions& options = {});

/// A checkpoint that is whole. The tensors are mapped, not copied; its files must stay as they are.
struct Checkpoint {
  std::string path;
  CheckpointInfo info;
  SafetensorsFile model;
  std::optional<SafetensorsFile> optimizer;
};

/// Loads FOLDER/step-…, after reading all of it to check sizes and checksums. Throws Error(Input) that
/// names the file and what is wrong with it, Error(System) if one cannot be read.
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path);

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::string warning;  ///< "" if all is well; else why this one and not another. To be shown
};

/// Loads what `latest` names or, if that is damaged, the whole one with the highest step. Nothing if the
/// folder has no checkpoint or is not there. Throws Error(Input) if there are some and none is whole.
[[nodiscard]] std::optional<LoadedCheckpoint> load_latest(const std::string& folder);

}  // namespace trireme::train
