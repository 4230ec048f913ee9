// Coordinator: who is alive, which servers hold which shard in which epoch, and how far the workers have come. It never
// sees values. It changes one thing about a shard at a time, each in a new epoch:
//
//   a member's lease has ended    remove it, unless no other has everything that was acknowledged
//   too few members, or others
//     that the ring prefers       make a server the learner; it fetches the state. The ring has no server that is leaving
//   the learner has caught up     append it to the chain
//   more members than needed      remove one that the ring does not prefer
//
// What must survive a restart is in durable(): the runtime stores it before it sends what a call returned. Workers'
// clocks are not in it; workers report them again.
//
// Pure: no I/O, no clock, no threads. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/indexed_vector.h"
#include "ps/protocol/clocks.h"
#include "ps/protocol/message.h"
#include "ps/protocol/ring.h"
#include "ps/protocol/snapshot.h"
#include "trireme/ps_update.h"

namespace trireme::ps {

struct CoordinatorOptions {
  std::uint32_t shards = 64;
  std::size_t replicas = 2;       ///< of each shard, in different processes
  std::size_t min_servers = 1;    ///< processes that must have joined before shards are assigned
  std::size_t max_transfers = 4;  ///< shards that are copied at the same time
  Timing timing{};
  std::vector<TableSpec> tables{};   ///< that a new cluster starts with
  Epoch first_epoch = 1;             ///< higher than any of the cluster that a snapshot is from
  std::uint64_t origin = 0;          ///< identifies the snapshot that a new cluster starts from
  Micros snapshot_every = 0;         ///< 0: never
  std::uint64_t first_snapshot = 1;  ///< its number, higher than those of former lives
};
[[nodiscard]] std::vector<std::string> problems(const CoordinatorOptions& options);

/// What the coordinator knows about a shard.
struct ShardRecord {
  View view;
  bool is_tail_synced =
      true;  ///< false: the last member has not everything yet that was acknowledged
  /// A removed tail that is alive and may still answer pulls: others learn the view when it has learned it.
  std::optional<Member> deposed;
  std::vector<std::uint64_t> pinned;  ///< numbers of servers, instead of those of the ring

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.view, self.is_tail_synced, self.deposed, self.pinned);
  }
};

class Coordinator {
 public:
  /// `durable`: of a former life; empty for a new cluster. `updates` must outlive it. Throws Error(Input) if `durable`
  /// is damaged.
  Coordinator(const CoordinatorOptions& options, const UpdateRegistry& updates, Micros now,
              std::string_view durable = {});

  void handle(const Envelope& envelope, Micros now, Outbox& out);
  /// To be called every few milliseconds.
  void tick(Micros now, Outbox& out);

  /// Changes whenever durable() does.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  [[nodiscard]] std::string durable() const;

  /// Identifies the snapshot that the cluster started from; 0: none.
  [[nodiscard]] std::uint64_t origin() const noexcept { return origin_; }
  /// The last round that was begun; 0: none. Its folder must exist before what a call returned is sent.
  [[nodiscard]] std::uint64_t snapshot_number() const { return round_ ? round_->number() : 0; }
  /// A snapshot that has become complete since the last call.
  [[nodiscard]] std::optional<SnapshotManifest> take_snapshot();

  [[nodiscard]] const std::vector<ShardRecord>& shards() const noexcept { return shards_.items(); }
  [[nodiscard]] const std::vector<TableSpec>& tables() const noexcept { return tables_; }
  /// Whether every shard has all its replicas, each with everything that was acknowledged.
  [[nodiscard]] bool is_healthy() const;
  /// Processes of which a node is alive and not leaving.
  [[nodiscard]] std::size_t live_servers() const;
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }
  /// Iterations completed by the slowest worker of a table, if it is known.
  [[nodiscard]] std::optional<ClockCount> slowest(TableId table) const {
    return clocks_.at(table).slowest();
  }
  /// The clock from which a worker counts in a table, if it is registered there.
  [[nodiscard]] std::optional<ClockCount> joined_at(TableId table, NodeId worker) const;

 private:
  /// A process that says that it is a server which is alive: its next life, which waits until the lease of the former one
  /// has ended, or a second server with the same number.
  struct Rival {
    Incarnation incarnation = 0;
    Micros since = 0;  ///< awake_time()
    Micros heard = 0;  ///< awake_time()
  };
  struct ServerRecord {
    Incarnation incarnation = 0;
    std::string address;
    Micros heard = 0;  ///< awake_time()
    std::uint32_t reactors = 1;
    bool is_alive = true;
    bool is_leaving = false;   ///< it gets no shards any more
    bool is_released = false;  ///< it may stop, and knows it
    bool is_restored = false;  ///< from the state of a former life, and not heard since
    std::optional<Rival> rival{};
    std::map<ShardId, ShardStatus> statuses{};

    template <class Io, class Self>
    static void fields(Io& io, Self& self) {
      io(self.incarnation, self.address);
    }
  };
  /// Durable.
  struct Registration {
    ClockCount start = 0;
    std::uint64_t number = 0;  ///< higher than any before it

    template <class Io, class Self>
    static void fields(Io& io, Self& self) {
      io(self.start, self.number);
    }
  };
  struct WorkerRecord {
    Micros heard = 0;  ///< awake_time()
    std::map<TableId, Registration> joined{};
  };

  void restore(std::string_view durable, Micros now);
  void take(NodeId from, const ServerBeat& beat, Micros now, Outbox& out);
  void take(NodeId from, const WorkerBeat& beat, Micros now, Outbox& out);
  void take(NodeId from, const CreateTable& request, Outbox& out);
  void take(NodeId from, const MoveShard& request, Outbox& out);

  /// How long this process has run. Never faster than time, so leases that it measures have ended.
  [[nodiscard]] Micros awake_time(Micros now) const;
  /// How long a node may be silent.
  [[nodiscard]] Micros patience() const;
  [[nodiscard]] std::string reason_to_refuse(NodeId from, const ServerBeat& beat) const;
  void meet_rival(NodeId server, ServerRecord& record, Incarnation incarnation, Outbox& out) const;
  void expire(Outbox& out);
  void update_ring();
  [[nodiscard]] bool have_servers_joined() const;
  void assign_all(Outbox& out);
  void reconfigure(ShardId shard, Outbox& out);
  [[nodiscard]] bool drop_dead(ShardRecord& record) const;
  [[nodiscard]] std::vector<StuckShard> stuck_shards() const;
  [[nodiscard]] bool admit_learner(ShardId shard, ShardRecord& record) const;
  void note_progress(ShardId shard, ShardRecord& record);
  [[nodiscard]] bool move_towards_target(ShardId shard, ShardRecord& record) const;
  [[nodiscard]] std::vector<NodeId> target(ShardId shard, const ShardRecord& record) const;
  void announce(ShardId shard, const View& before, Outbox& out);

  void advance_snapshot(Micros now, Outbox& out);
  void begin_snapshot(Micros now);
  void request_parts(Outbox& out) const;

  [[nodiscard]] bool is_alive(const Member& member) const;
  [[nodiscard]] const ShardStatus* status_of(const Member& member, ShardId shard) const;
  [[nodiscard]] bool may_learn(NodeId server, const ShardRecord& record) const;
  /// Whether a node that is leaving may stop.
  [[nodiscard]] bool may_stop(NodeId node) const;
  /// Whether it holds no shard, nor may believe that.
  [[nodiscard]] bool is_idle(NodeId node) const;
  void forget_left();
  [[nodiscard]] static ServerCondition condition_of(const ServerRecord& server);
  [[nodiscard]] bool may_have_lease(NodeId server, const ServerRecord& record) const;
  [[nodiscard]] ClusterState state_for(NodeId node) const;
  [[nodiscard]] std::vector<ServerAddress> addresses() const;
  [[nodiscard]] std::vector<TableEntry> table_entries() const;
  void send_slowest(TableId table, Outbox& out);
  [[nodiscard]] SlowestClocks slowest_for(const WorkerRecord& worker, Micros sent) const;
  void remove_worker(NodeId worker, Outbox& out);
  void send(NodeId to, Message message, Outbox& out) const;

  CoordinatorOptions options_;
  const UpdateRegistry& updates_;
  std::uint64_t version_ = 1;
  IndexedVector<ShardId, ShardRecord> shards_;
  std::vector<TableSpec> tables_;
  std::map<NodeId, ServerRecord> servers_;
  std::vector<NodeId> ring_nodes_;  ///< alive at the last tick, and not leaving
  Ring ring_;                       ///< of ring_nodes_
  std::map<NodeId, WorkerRecord> workers_;
  IndexedVector<TableId, ClockTable> clocks_;
  IndexedVector<TableId, std::optional<ClockCount>> announced_;
  Micros last_tick_;
  Micros awake_ = 0;  ///< awake_time() at the last tick
  std::uint64_t origin_;
  std::optional<SnapshotRound> round_;  ///< the last one
  bool is_round_taken_ = true;          ///< by take_snapshot()
  std::uint64_t next_snapshot_;
  Micros round_begin_;
  Micros parts_requested_ = 0;
};

}  // namespace trireme::ps
