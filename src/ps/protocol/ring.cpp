#include "ps/protocol/ring.h"

#include <algorithm>

namespace trireme::ps {
namespace {

constexpr std::uint64_t kPointsPerServer = 64;
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

Ring::Ring(std::span<const NodeId> servers) : servers_(servers.size()) {
  for (const NodeId server : servers) {
    for (std::uint64_t point = 0; point < kPointsPerServer; ++point) {
      points_.emplace_back(mix(mix(static_cast<std::uint64_t>(server)) + point), server);
    }
  }
  std::ranges::sort(points_);
}

std::vector<NodeId> Ring::chain(ShardId shard, std::size_t replicas) const {
  std::vector<NodeId> chain;
  const std::uint64_t hash = mix(kShardSalt ^ static_cast<std::uint64_t>(shard));
  auto at = std::ranges::lower_bound(points_, std::pair(hash, NodeId{}));
  while (chain.size() < std::min(replicas, servers_)) {
    if (at == points_.end()) {
      at = points_.begin();
    }
    if (std::ranges::find(chain, at->second) == chain.end()) {
      chain.push_back(at->second);
    }
    ++at;
  }
  return chain;
}

}  // namespace trireme::ps
