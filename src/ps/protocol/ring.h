// Where keys live: a table's keys are divided into ranges of equal size, one per shard, and a consistent-hash ring
// assigns shards to the servers' nodes. A node that joins or leaves changes the assignment of few shards. Replicas of a
// shard are on nodes of different processes, because the nodes of a process fail together. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
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

/// Whether one of the nodes is of the same process as this one.
[[nodiscard]] bool shares_process(std::span<const NodeId> nodes, NodeId node);

/// Each node has many points on a circle of hashes; a shard belongs to the nodes whose points follow its own. Loads are
/// bounded (Mirrokni et al., 2018): nodes that are full are passed over, so that all have equally many heads, and equally
/// many replicas, up to one.
class Ring {
 public:
  struct Load {
    std::uint32_t shards = 0;
    std::size_t replicas = 1;
  };
  Ring() = default;
  Ring(std::span<const NodeId> nodes, const Load& load);
  /// `replicas` nodes of different processes, fewer if there are fewer processes: those that hold the shard, then those that
  /// follow on the circle.
  [[nodiscard]] std::vector<NodeId> chain(ShardId shard, std::size_t replicas) const;
  /// The first node of this server from the shard's point on, if it has any.
  [[nodiscard]] std::optional<NodeId> node_of(std::uint64_t server, ShardId shard) const;

 private:
  using Point = std::pair<std::uint64_t, NodeId>;
  [[nodiscard]] std::size_t first_point(ShardId shard) const;
  [[nodiscard]] std::vector<NodeId> walk(ShardId shard) const;
  void assign(const Load& load, std::size_t nodes);
  void append_member(ShardId shard, std::map<NodeId, std::size_t>& given, std::size_t most);

  std::vector<Point> points_;
  IndexedVector<ShardId, std::vector<NodeId>> chains_;
  std::size_t processes_ = 0;
};

}  // namespace trireme::ps
