// Snapshots of a cluster: what the coordinator knows about one, and how it collects them. In each round the tail of every
// shard stores its state; the snapshot is complete when all have. So it contains, of every shard, the pushes up to an
// index, and at least those that were acknowledged before the round began. Shards are not cut at the same moment.
//
// Pure: no I/O, no clock, no threads. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ps/protocol/message.h"

namespace trireme::ps {

/// A complete snapshot.
struct SnapshotManifest {
  std::uint64_t number = 0;
  Epoch epoch = 0;                 ///< the highest of any shard so far
  std::vector<TableEntry> tables;  ///< all that the parts may contain
  /// The slowest worker's clock in each table when the round began. Contains all pushes of the iterations before it.
  std::vector<TableClock> clocks;
  std::vector<SnapshotPart> parts;  ///< one for each shard, in order

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.epoch, self.tables, self.clocks, self.parts);
  }
};

/// The state of a shard, to be stored.
struct SnapshotJob {
  std::uint64_t number = 0;
  ShardId shard{};
  Index applied = 0;
  std::string state;
};

/// One round of the coordinator.
class SnapshotRound {
 public:
  SnapshotRound(std::uint64_t number, std::size_t shards, std::vector<TableClock> clocks)
      : number_(number), shards_(shards), clocks_(std::move(clocks)) {}

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Whether the shard is still to be stored.
  [[nodiscard]] bool needs(ShardId shard) const { return !parts_.contains(shard); }
  void take(const SnapshotWritten& written);
  [[nodiscard]] bool is_complete() const { return parts_.size() == shards_; }
  /// Requires is_complete().
  [[nodiscard]] SnapshotManifest manifest(Epoch epoch, std::vector<TableEntry> tables) const;

 private:
  std::uint64_t number_;
  std::size_t shards_;
  std::vector<TableClock> clocks_;
  std::map<ShardId, SnapshotPart> parts_;
};

/// One server's share of a round.
class SnapshotShare {
 public:
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// What was requested and is stored already, for another report.
  [[nodiscard]] std::vector<SnapshotPart> take(const TakeSnapshot& request);
  /// The next shard to be stored for which `is_ready(shard)`.
  template <class IsReady>
  [[nodiscard]] std::optional<ShardId> next(const IsReady& is_ready) const {
    for (const ShardId shard : wanted_) {
      if (is_ready(shard)) {
        return shard;
      }
    }
    return std::nullopt;
  }
  /// Its state was handed over; requested again, it is stored again, unless written() came first.
  void started(ShardId shard) { std::erase(wanted_, shard); }
  void written(const SnapshotPart& part) { written_[part.shard] = part; }

 private:
  std::uint64_t number_ = 0;
  std::vector<ShardId> wanted_;
  std::map<ShardId, SnapshotPart> written_;
};

}  // namespace trireme::ps
