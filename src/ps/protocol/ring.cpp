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

Ring::Ring(std::span<const NodeId> nodes, const Load& load) {
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
  assign(load, nodes.size());
}

/// Shards choose one after the other, all of them their heads before the second replicas.
void Ring::assign(const Load& load, std::size_t nodes) {
  chains_.resize(nodes == 0 ? 0 : load.shards);
  std::map<NodeId, std::size_t> given;
  for (std::size_t length = 1; length <= std::min(load.replicas, processes_); ++length) {
    const std::size_t most = (load.shards * length + nodes - 1) / nodes;
    for (const ShardId shard : chains_.ids()) {
      append_member(shard, given, most);
    }
  }
}

/// The next node that has room; if all of them are of processes that have the shard, the next one.
void Ring::append_member(ShardId shard, std::map<NodeId, std::size_t>& given, std::size_t most) {
  std::vector<NodeId>& chain = chains_[shard];
  std::vector<NodeId> candidates = walk(shard);
  std::erase_if(candidates, [&](NodeId node) { return shares_process(chain, node); });
  const auto has_room = std::ranges::find_if(candidates, [&](NodeId n) { return given[n] < most; });
  chain.push_back(has_room == candidates.end() ? candidates.front() : *has_room);
  ++given[chain.back()];
}

/// Requires a point.
std::size_t Ring::first_point(ShardId shard) const {
  const std::uint64_t hash = mix(kShardSalt ^ static_cast<std::uint64_t>(shard));
  const auto at = std::ranges::lower_bound(points_, Point(hash, NodeId{}));
  return (at - points_.begin()) % std::ssize(points_);
}

/// All nodes, in the order in which their points follow the shard's.
std::vector<NodeId> Ring::walk(ShardId shard) const {
  std::vector<NodeId> nodes;
  const std::size_t first = points_.empty() ? 0 : first_point(shard);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const NodeId node = points_[(first + i) % points_.size()].second;
    if (std::ranges::find(nodes, node) == nodes.end()) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

std::vector<NodeId> Ring::chain(ShardId shard, std::size_t replicas) const {
  std::vector<NodeId> chain = chains_.contains(shard) ? chains_[shard] : std::vector<NodeId>();
  chain.resize(std::min(chain.size(), replicas));
  for (const NodeId node : replicas > chain.size() ? walk(shard) : std::vector<NodeId>()) {
    if (chain.size() < std::min(replicas, processes_) && !shares_process(chain, node)) {
      chain.push_back(node);
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
