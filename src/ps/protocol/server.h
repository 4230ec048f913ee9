// Server: the replicas of one node and its lease. A process with several reactors has such a node for each. A node renews its lease with heartbeats; while it is valid, the
// coordinator will not give its place to another, so a tail may answer pulls. Time only enters as an argument.
//
// Pure: no I/O, no clock, no threads. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/protocol/early_messages.h"
#include "ps/protocol/message.h"
#include "ps/protocol/replica.h"
#include "ps/protocol/snapshot.h"
#include "trireme/ps_update.h"

namespace trireme::ps {

struct ServerOptions {
  NodeId id = server_node(0);
  Incarnation incarnation = 1;  ///< different in each life
  std::uint32_t reactors = 1;   ///< nodes of this process
  std::string address{};        ///< where workers and servers connect
  Timing timing{};
  std::size_t chunk_bytes = std::size_t{256} << 10;
  /// The state with which a shard starts in a cluster that was restored from the snapshot `origin`. Throws if this
  /// server cannot read it; it must not start empty then.
  std::function<std::string(ShardId, std::uint64_t origin)> initial_state{};
};

class Server {
 public:
  /// `updates` must outlive it.
  Server(ServerOptions options, const UpdateRegistry& updates);

  /// Borrowed values in `out` are valid until the next call. `now` must not be earlier than the message's arrival.
  void handle(const Envelope& envelope, Micros now, Outbox& out);
  /// To be called every few milliseconds.
  void tick(Micros now, Outbox& out);

  /// What was sent to this node before may be lost: tick() repeats it at once.
  void reconnected(NodeId node, Micros now);

  /// Asks the coordinator to give its shards to others. It serves them until then.
  void leave();
  /// Whether it may stop after leave(): it has no shards, or no server can take them.
  [[nodiscard]] bool is_released() const noexcept { return is_released_; }

  /// The next shard that the coordinator wants stored; to be called when the last one is.
  [[nodiscard]] std::optional<SnapshotJob> next_snapshot();
  /// A job is done.
  void snapshot_written(const SnapshotWritten& written, Outbox& out);

  [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
  [[nodiscard]] bool has_lease(Micros now) const noexcept { return now < lease_end_; }
  [[nodiscard]] const std::map<ShardId, std::unique_ptr<Replica>>& replicas() const {
    return replicas_;
  }
  [[nodiscard]] const KnownTables& tables() const noexcept { return tables_; }
  /// Where other servers listen, as the coordinator reported.
  [[nodiscard]] const std::map<NodeId, std::string>& addresses() const { return addresses_; }

 private:
  void take(const ClusterState& state, Micros now, Outbox& out);
  void take(const ServerBeatDone& done, Micros now, Outbox& out);
  [[nodiscard]] bool keep_if_early(const Envelope& envelope);
  [[nodiscard]] Epoch known_epoch(ShardId shard, NodeId sender) const;
  [[nodiscard]] std::optional<ShardId> shard_without_table(const Message& message) const;
  void handle_early(EarlyMessages& kept, ShardId shard, Micros now, Outbox& out);
  void dispatch(const Envelope& envelope, Micros now, Outbox& out);
  void add_table(const TableEntry& entry);
  void adopt(ShardId shard, const View& view, Micros now, Outbox& out);
  void take(const TakeSnapshot& request, Outbox& out);
  [[nodiscard]] std::string initial_state(ShardId shard) const;
  void beat(Micros now, Outbox& out);
  [[nodiscard]] Replica* replica(ShardId shard) const;
  void refuse(const Envelope& envelope, Outbox& out) const;
  [[nodiscard]] bool belongs(const View& view) const;

  ServerOptions options_;
  const UpdateRegistry& updates_;
  KnownTables tables_;
  std::uint32_t shard_count_ = 0;
  std::uint64_t origin_ = 0;  ///< of the cluster's state
  SnapshotShare snapshot_;
  std::map<ShardId, std::unique_ptr<Replica>> replicas_;
  std::map<ShardId, Epoch> epochs_;  ///< the highest that this server has seen
  EarlyMessages early_;              ///< for a view
  EarlyMessages tableless_;          ///< for a table
  std::map<NodeId, std::string> addresses_;
  Micros lease_end_ = 0;
  Micros last_beat_ = 0;
  bool has_news_ = true;  ///< the coordinator waits for a heartbeat
  bool is_leaving_ = false;
  bool is_released_ = false;
};

}  // namespace trireme::ps
