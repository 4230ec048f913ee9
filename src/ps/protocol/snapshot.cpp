#include "ps/protocol/snapshot.h"

#include <algorithm>
#include <utility>

#include "base/indexed_vector.h"

namespace trireme::ps {

void SnapshotRound::take(const SnapshotWritten& written) {
  const bool is_known = position_of(written.part.shard) < shards_;
  if (written.number == number_ && is_known) {
    parts_.try_emplace(written.part.shard, written.part);
  }
}

SnapshotManifest SnapshotRound::manifest(Epoch epoch, std::vector<TableEntry> tables) const {
  SnapshotManifest manifest{.number = number_,
                            .epoch = epoch,
                            .tables = std::move(tables),
                            .clocks = clocks_,
                            .parts = {}};
  for (const auto& [shard, part] : parts_) {
    manifest.parts.push_back(part);
  }
  return manifest;
}

std::vector<SnapshotPart> SnapshotShare::take(const TakeSnapshot& request) {
  if (request.number < number_) {
    return {};  // of a former round
  }
  if (request.number > number_) {
    *this = SnapshotShare();
    number_ = request.number;
  }
  std::vector<SnapshotPart> again;
  for (const ShardId shard : request.shards) {
    if (const auto at = written_.find(shard); at != written_.end()) {
      again.push_back(at->second);
    } else if (std::ranges::find(wanted_, shard) == wanted_.end()) {
      wanted_.push_back(shard);
    }
  }
  return again;
}

}  // namespace trireme::ps
