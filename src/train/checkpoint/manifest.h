// manifest.json of a checkpoint: its contents and how to verify them. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/token_source.h"

namespace trireme::train {

/// The state besides tensors that a run needs to resume exactly.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  DataPosition data;
  std::string config;  ///< stored verbatim; UTF-8, by convention JSON
  friend bool operator==(const CheckpointInfo&, const CheckpointInfo&) = default;
};

/// A whole tensor, however it was sharded: its hash is the same under every mesh.
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

/// JSON; its last field is the checksum of everything before it. Throws Error(Usage) if the config is not UTF-8 or a
/// number is negative.
[[nodiscard]] std::string to_text(const Manifest& manifest);

/// Parses the output of to_text; a single changed byte is an error. Throws Error(Input) that begins with `what`.
[[nodiscard]] Manifest parse_manifest(std::string_view text, std::string_view what);

}  // namespace trireme::train
