// Where keys live: a table's keys are divided into ranges of equal size, one per shard, and a consistent-hash ring
// assigns shards to servers. A server that joins or leaves changes the assignment of few shards. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ps/protocol/ids.h"
#include "trireme/ps_table.h"

namespace trireme::ps {

struct KeyRange {
  Key begin = 0;
  Key end = 0;
  [[nodiscard]] bool contains(Key key) const { return begin <= key && key < end; }
  [[nodiscard]] Key size() const { return end - begin; }
};

/// The keys of a table with `keys` keys that belong to the shard.
[[nodiscard]] KeyRange shard_range(Key keys, ShardId shard, std::uint32_t shard_count);
/// The shard of a key. Requires key < keys.
[[nodiscard]] ShardId shard_of(Key keys, Key key, std::uint32_t shard_count);

/// Each server has many points on a circle of hashes; a shard belongs to the servers whose points follow its own.
class Ring {
 public:
  explicit Ring(std::span<const NodeId> servers);
  /// The first `replicas` different servers from the shard's point on; fewer if there are fewer.
  [[nodiscard]] std::vector<NodeId> chain(ShardId shard, std::size_t replicas) const;

 private:
  std::vector<std::pair<std::uint64_t, NodeId>> points_;
  std::size_t servers_;
};

}  // namespace trireme::ps
