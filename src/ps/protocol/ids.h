// The names of things in the protocol, and its time. Values; callable from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::ps {

/// A participant: the coordinator, a server or a worker.
enum class NodeId : std::uint64_t { Coordinator = 0 };
inline constexpr std::uint64_t kFirstWorker = std::uint64_t{1} << 63;

/// A server is a process with one or more reactors, each of which is a node with shards of its own. The nodes of a process
/// fail together.
inline constexpr unsigned kReactorBit = 32;
inline constexpr std::uint64_t kMaxServerNumber = (std::uint64_t{1} << kReactorBit) - 2;
inline constexpr std::uint64_t kMaxReactors = 1024;

[[nodiscard]] constexpr NodeId server_node(std::uint64_t number, std::uint64_t reactor = 0) {
  return static_cast<NodeId>((reactor << kReactorBit) + number + 1);
}
/// The process of a server's node. Requires is_server(node).
[[nodiscard]] constexpr std::uint64_t server_number(NodeId node) {
  return (static_cast<std::uint64_t>(node) & (kMaxServerNumber + 1)) - 1;
}
[[nodiscard]] constexpr std::uint64_t reactor_number(NodeId node) {
  return static_cast<std::uint64_t>(node) >> kReactorBit;
}
[[nodiscard]] constexpr NodeId worker_node(std::uint64_t number) {
  return static_cast<NodeId>(kFirstWorker | number);
}
[[nodiscard]] constexpr bool is_worker(NodeId node) {
  return static_cast<std::uint64_t>(node) >= kFirstWorker;
}
[[nodiscard]] constexpr bool is_server(NodeId node) {
  return node != NodeId::Coordinator && !is_worker(node);
}
/// "the coordinator", "server 2", "worker 5"; "server 2.1" is reactor 1 of server 2.
[[nodiscard]] std::string to_text(NodeId node);

/// What the coordinator knows of a server.
enum class ServerCondition : std::uint8_t {
  Alive,
  Leaving,  ///< it hands its shards over
  Left,     ///< it has handed them over; forgotten when its lease has ended
  Silent,   ///< for longer than its lease
};
/// "alive", …
[[nodiscard]] std::string_view to_text(ServerCondition condition);

enum class ShardId : std::uint32_t {};
enum class TableId : std::uint32_t {};

/// Counts the views of a shard; each view has a higher one than its predecessor. 0: none yet.
using Epoch = std::uint64_t;
/// Numbers the pushes of one worker to one shard, from 1, without gaps.
using Sequence = std::uint64_t;
/// Numbers the pushes that a shard has applied, from 1, in the order that its head decided.
using Index = std::uint64_t;
/// Distinguishes the lives of a server that restarts under its old id.
using Incarnation = std::uint64_t;

/// Microseconds on the clock of one node. Clocks of different nodes are never compared; only their rates have to agree.
using Micros = std::int64_t;

/// A server in one of its lives.
struct Member {
  NodeId server{};
  Incarnation incarnation = 0;
  friend auto operator<=>(const Member&, const Member&) = default;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.server, self.incarnation);
  }
};

/// Who holds a shard in an epoch. The head (first) orders the pushes, the tail (last) acknowledges them and serves
/// pulls. A learner receives the shard's state and then its updates, but does not count yet.
struct View {
  Epoch epoch = 0;
  std::vector<Member> chain;
  std::optional<Member> learner;
  friend bool operator==(const View&, const View&) = default;

  /// How many processes hold the shard; the learner does not count.
  [[nodiscard]] std::size_t processes() const;
  /// Whether it is in the chain; the learner is not.
  [[nodiscard]] bool has_member(NodeId server) const;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.epoch, self.chain, self.learner);
  }
};

/// How often things happen; the same at all nodes.
struct Timing {
  Micros heartbeat = 30'000;  ///< between two heartbeats of a server or worker
  /// How long a tail may serve pulls, and a worker counts in the clocks, after it sent its last answered heartbeat.
  Micros lease = 150'000;
  /// How much longer than the lease the coordinator waits; covers clocks that run at different rates.
  Micros lease_margin = 15'000;
  Micros retry = 40'000;  ///< a message without an answer is sent again after this
};

}  // namespace trireme::ps
