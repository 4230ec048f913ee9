#include "ps/protocol/ring.h"

#include <algorithm>

#include "ps/protocol/fault.h"

namespace trireme::ps {
namespace {

constexpr std::uint64_t kPointsPerNode = 64;
constexpr std::uint64_t kShardSalt = 0x9e3779b97f4a7c15;

__extension__ typedef unsigned __int128
    Wide;  // NOLINT(modernize-use-using): no `using` takes __extension__

/// The finalizer of SplitMix64: every bit of the input changes half of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Key boundary(Key keys, std::uint64_t shard, std::uint32_t shard_count) {
  return static_cast<Key>(static_cast<Wide>(keys) * shard / shard_count);
}

}  // namespace

KeyRange shard_range(Key keys, ShardId shard, std::uint32_t shard_count) {
  const auto number = static_cast<std::uint64_t>(shard);
  return {boundary(keys, number, shard_count), boundary(keys, number + 1, shard_count)};
}

// The last shard whose range begins at or before the key: the largest s with s * keys / count <= key, rounded down.
ShardId shard_of(Key keys, Key key, std::uint32_t shard_count) {
  const Wide numerator = (static_cast<Wide>(key) + 1) * shard_count - 1;
  return static_cast<ShardId>(numerator / keys);
}

bool shares_process(std::span<const NodeId> nodes, NodeId node) {
  return std::ranges::any_of(nodes, [&](NodeId other) {
    return planted(Fault::ShareProcess) ? other == node
                                        : server_number(other) == server_number(node);
  });
}

Ring::Ring(std::span<const NodeId> nodes) {
  std::vector<NodeId> processes;
  for (const NodeId node : nodes) {
    for (std::uint64_t point = 0; point < kPointsPerNode; ++point) {
      points_.emplace_back(mix(mix(static_cast<std::uint64_t>(node)) + point), node);
    }
    if (!shares_process(processes, node)) {
      processes.push_back(node);
    }
  }
  processes_ = processes.size();
  std::ranges::sort(points_);
}

/// Requires a point.
std::size_t Ring::first_point(ShardId shard) const {
  const std::uint64_t hash = mix(kShardSalt ^ static_cast<std::uint64_t>(shard));
  const auto at = std::ranges::lower_bound(points_, Point(hash, NodeId{}));
  return static_cast<std::size_t>(at - points_.begin()) % points_.size();
}

std::vector<NodeId> Ring::chain(ShardId shard, std::size_t replicas) const {
  std::vector<NodeId> chain;
  std::size_t at = points_.empty() ? 0 : first_point(shard);
  for (; chain.size() < std::min(replicas, processes_); at = (at + 1) % points_.size()) {
    if (!shares_process(chain, points_[at].second)) {
      chain.push_back(points_[at].second);
    }
  }
  return chain;
}

std::optional<NodeId> Ring::node_of(std::uint64_t server, ShardId shard) const {
  const std::size_t first = points_.empty() ? 0 : first_point(shard);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const NodeId node = points_[(first + i) % points_.size()].second;
    if (server_number(node) == server) {
      return node;
    }
  }
  return std::nullopt;
}

}  // namespace trireme::ps
