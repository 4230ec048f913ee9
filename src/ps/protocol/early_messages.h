// EarlyMessages: requests that name a newer epoch of a shard than this node has adopted, or a table that it does not know.
// The coordinator announces views and tables to everybody at once, so a worker, a predecessor or a successor may act on
// them before this node has read its own copy. To keep such a request for a moment is a network delay to the protocol; to
// drop it costs the sender a retry.
//
// Pure: no I/O, no clock, no threads. One thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "ps/protocol/message.h"

namespace trireme::ps {

class EarlyMessages {
 public:
  /// The shard of a request that it would keep: one with a higher epoch than `epoch_of(shard)` returns.
  template <class EpochOf>
  [[nodiscard]] static std::optional<ShardId> early_shard(const Envelope& envelope,
                                                          const EpochOf& epoch_of) {
    const std::optional<ShardEpoch> named = named_by(envelope.message);
    const bool is_early = named && named->epoch > epoch_of(named->shard);
    return is_early ? std::optional(named->shard) : std::nullopt;
  }
  /// The shard and table of an update or read.
  struct ShardTable {
    ShardId shard{};
    TableId table{};
  };
  [[nodiscard]] static std::optional<ShardTable> table_in(const Message& message);
  [[nodiscard]] bool has(ShardId shard) const { return kept_.contains(shard); }
  /// Keeps it if there is room; copies borrowed values.
  void keep(ShardId shard, const Envelope& envelope);
  /// Everything about the shard, in the order of arrival.
  [[nodiscard]] std::vector<Envelope> take(ShardId shard);
  /// Shards about which it has messages.
  [[nodiscard]] std::vector<ShardId> shards() const;

 private:
  struct ShardEpoch {
    ShardId shard{};
    Epoch epoch = 0;
  };
  [[nodiscard]] static std::optional<ShardEpoch> named_by(const Message& message);
  void forget_resume(ShardId shard, NodeId from);

  std::map<ShardId, std::vector<Envelope>> kept_;
  std::size_t count_ = 0;
  std::size_t floats_ = 0;
};

}  // namespace trireme::ps
