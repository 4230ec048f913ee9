// Snapshots in a folder, one sub-folder for each:
//
//   FOLDER/snapshot-000012/shard-3-0123456789abcdef   the state of shard 3, named by its checksum
//   FOLDER/snapshot-000012/manifest                   written last: a snapshot without it is incomplete
//
// Every file is written under another name, synced and renamed, and begins with its size and checksum. The coordinator
// and all servers see the same folder. Functions throw Error(System) if a file cannot be written, and Error(Input) if it
// is missing or damaged. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "ps/protocol/snapshot.h"

namespace trireme::ps {

/// The highest number in the folder, complete or not; 0 if there is none.
[[nodiscard]] std::uint64_t last_snapshot_number(const std::string& folder);
/// Makes its folder.
void begin_snapshot(const std::string& folder, std::uint64_t number);
[[nodiscard]] SnapshotPart write_snapshot_part(const std::string& folder, const SnapshotJob& job);
/// The snapshot is complete when it returns. Removes older ones except the last complete one.
void finish_snapshot(const std::string& folder, const SnapshotManifest& manifest);

/// A complete snapshot.
struct StoredSnapshot {
  std::string path;
  SnapshotManifest manifest;
  std::uint64_t origin = 0;  ///< identifies it; never 0
};
/// The last complete one in a folder, or the one at `path` itself. Throws Error(Usage) if there is none, Error(Input) if
/// its manifest is damaged.
[[nodiscard]] StoredSnapshot open_snapshot(const std::string& path);
/// Throws Error(Input) if the part is missing or damaged.
[[nodiscard]] std::string read_snapshot_part(const StoredSnapshot& snapshot, ShardId shard);
/// Reads all parts. Throws as read_snapshot_part().
void verify_snapshot(const StoredSnapshot& snapshot);

}  // namespace trireme::ps
