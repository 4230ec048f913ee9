// manifest.json of a checkpoint: what it holds and how to tell that it is whole. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/token_source.h"

namespace trireme::train {

/// What a run needs besides its tensors to resume exactly.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  DataPosition data;
  std::string config;  ///< kept as it is; UTF-8, JSON by custom
  friend bool operator==(const CheckpointInfo&, const CheckpointInfo&) = default;
};

/// A tensor as a whole, however many ranks it lay on: its hash is the same under every mesh.
struct ManifestTensor {
  std::string name;
  std::string xxh3;  ///< checksum_text of its elements
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct ManifestFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string xxh3;  ///< checksum_text of the content
  std::vector<ManifestTensor> tensors;
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  CheckpointInfo info;
  std::vector<ManifestFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// JSON, with the checksum of all before it as the last field. Throws Error(Usage) if the config is not
/// UTF-8 or a number is negative.
[[nodiscard]] std::string to_text(const Manifest& manifest);

/// Reads that very text: one changed byte is an error. Throws Error(Input) that begins with `what`.
[[nodiscard]] Manifest parse_manifest(std::string_view text, std::string_view what);

}  // namespace trireme::train
