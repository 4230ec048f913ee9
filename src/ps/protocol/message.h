// The messages of the protocol. Every message about a shard carries its epoch, so that a server with an outdated view
// can neither answer nor forward. `fields` lists what travels, for both directions (see ps/wire). Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ps/protocol/ids.h"
#include "ps/protocol/values.h"
#include "trireme/ps_metrics.h"
#include "trireme/ps_table.h"

namespace trireme::ps {

/// The keys of a request: a list if there is one, otherwise the range [begin, end).
struct KeySet {
  Key begin = 0;
  Key end = 0;
  std::vector<Key> list{};
  friend bool operator==(const KeySet&, const KeySet&) = default;

  [[nodiscard]] std::size_t count() const { return list.empty() ? end - begin : list.size(); }
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.begin, self.end, self.list);
  }
};

/// Whether an acknowledgement also returns the values of the pushed keys.
enum class Reply : std::uint8_t { Acknowledge, Values };

/// Subject of a Refusal of a worker's clocks.
inline constexpr const char* kLeaseSubject = "--lease";

// Between workers and servers.

/// Worker to head: apply this once.
struct Push {
  ShardId shard{};
  Epoch epoch = 0;
  NodeId worker{};
  Sequence sequence = 0;
  TableId table{};
  Reply reply = Reply::Acknowledge;
  KeySet keys;
  Values values;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.worker, self.sequence, self.table, self.reply, self.keys,
       self.values);
  }
};

/// Tail to worker, or head to worker for a push that was acknowledged before: every replica has it.
struct PushDone {
  ShardId shard{};
  Epoch epoch = 0;
  Sequence sequence = 0;
  Values values;  ///< if requested and this is not a repetition

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.sequence, self.values);
  }
};

/// Worker to tail.
struct Pull {
  ShardId shard{};
  Epoch epoch = 0;
  NodeId worker{};
  std::uint64_t request = 0;
  Sequence after = 0;  ///< wait for this own push first, so that the worker reads its writes
  TableId table{};
  KeySet keys;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.worker, self.request, self.after, self.table, self.keys);
  }
};

struct PullDone {
  ShardId shard{};
  Epoch epoch = 0;
  std::uint64_t request = 0;
  Values values;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.request, self.values);
  }
};

/// Server to worker: the request's epoch is old, or the server has another role. The view may be newer than the
/// worker's; epoch 0 if the server has none.
struct WrongView {
  ShardId shard{};
  View view;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.view);
  }
};

// Along a chain.

/// To the successor or learner: the push that has this index.
struct Forward {
  Index index = 0;
  Push push;  ///< its epoch is that of the sender's view

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.index, self.push);
  }
};

/// To the predecessor: the tail has everything up to this index. From a learner: it has.
struct Commit {
  ShardId shard{};
  Epoch epoch = 0;
  Index index = 0;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.index);
  }
};

/// To the predecessor, at the begin of an epoch or after a gap: continue after this index.
struct Resume {
  ShardId shard{};
  Epoch epoch = 0;
  bool has_state = true;  ///< false: a learner with nothing, which needs a snapshot
  Index applied = 0;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.has_state, self.applied);
  }
};

/// Answer to Resume: what the predecessor had applied when its epoch began. A new tail that has as much holds
/// everything that was ever acknowledged.
struct SyncPoint {
  ShardId shard{};
  Epoch epoch = 0;
  Index index = 0;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.index);
  }
};

/// Answer to Resume if the log does not reach back that far.
struct SnapshotOffer {
  ShardId shard{};
  Epoch epoch = 0;
  Index index = 0;  ///< also the snapshot's name
  std::uint64_t bytes = 0;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.index, self.bytes);
  }
};

struct FetchChunk {
  ShardId shard{};
  Epoch epoch = 0;
  Index snapshot = 0;
  std::uint64_t offset = 0;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.snapshot, self.offset);
  }
};

struct Chunk {
  ShardId shard{};
  Epoch epoch = 0;
  Index snapshot = 0;
  std::uint64_t offset = 0;
  std::string bytes;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.snapshot, self.offset, self.bytes);
  }
};

// With the coordinator.

enum class Progress : std::uint8_t {
  Behind,    ///< does not hold everything that was acknowledged
  CaughtUp,  ///< a learner that has its snapshot and the updates since
  Synced,    ///< a member that holds everything that was ever acknowledged
};

struct ShardStatus {
  ShardId shard{};
  Epoch epoch = 0;
  Progress progress = Progress::Behind;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.epoch, self.progress);
  }
};

/// A server's node to the coordinator: alive; renew the lease.
struct ServerBeat {
  Incarnation incarnation = 0;
  Micros sent = 0;  ///< on the server's clock
  std::string address;
  Micros lease = Timing{}.lease;
  std::uint32_t reactors = 1;  ///< nodes of its process
  std::uint32_t tables = 0;    ///< how many it knows
  std::vector<ShardStatus> shards;
  bool leaving = false;  ///< give its shards to others: it wants to stop

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.incarnation, self.sent, self.address, self.lease, self.reactors, self.tables,
       self.shards, self.leaving);
  }
};

/// Renews the lease of that life of the server, from `sent` on.
struct ServerBeatDone {
  Incarnation incarnation = 0;
  Micros sent = 0;
  bool released = false;  ///< it is leaving and may stop: it has no shards, or nobody can take them

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.incarnation, self.sent, self.released);
  }
};

/// A table as the cluster knows it. Tables are never removed, so the n-th has id n.
struct TableEntry {
  TableId id{};
  TableSpec spec;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.id, self.spec.name, self.spec.keys, self.spec.width, self.spec.update,
       self.spec.parameters, self.spec.layout, self.spec.consistency, self.spec.staleness);
  }
};

struct ShardView {
  ShardId shard{};
  View view;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.view);
  }
};

struct ServerAddress {
  NodeId server{};
  std::string address;
  ServerCondition condition = ServerCondition::Alive;
  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.server, self.address, self.condition);
  }
};

/// A shard that nobody can serve: it waits for one of these servers, which have all that was acknowledged.
struct StuckShard {
  ShardId shard{};
  std::vector<NodeId> servers;
  bool is_lost = false;  ///< all of them have restarted, without their values

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.servers, self.is_lost);
  }
};

/// Coordinator to servers and workers: what has changed, or everything.
struct ClusterState {
  std::uint32_t shard_count = 0;
  bool is_healthy = false;  ///< every shard has all its replicas
  std::vector<ShardView> views;
  std::vector<TableEntry> tables;
  std::vector<ServerAddress> servers;
  /// Identifies the snapshot with whose state shards start; 0: they start empty.
  std::uint64_t origin = 0;
  std::vector<StuckShard> stuck{};

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard_count, self.is_healthy, self.views, self.tables, self.servers, self.origin,
       self.stuck);
  }
};

/// Worker to coordinator: send the cluster's state.
struct GetState {
  template <class Io, class Self>
  static void fields(Io& /*io*/, Self& /*self*/) {}
};

/// Worker to coordinator; the answer is a ClusterState with the table, or a Refusal.
struct CreateTable {
  TableSpec spec;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.spec.name, self.spec.keys, self.spec.width, self.spec.update, self.spec.parameters,
       self.spec.layout, self.spec.consistency, self.spec.staleness);
  }
};

/// To a worker: its request failed. To a server: the cluster does not take it, so it must stop.
struct Refusal {
  std::string subject;  ///< the table's name; kLeaseSubject
  std::string reason;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.subject, self.reason);
  }
};

struct TableClock {
  TableId table{};
  ClockCount clock = 0;
  friend bool operator==(const TableClock&, const TableClock&) = default;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.table, self.clock);
  }
};

/// Worker to coordinator: alive, and has completed this many iterations. All pushes of those were acknowledged. The
/// first one for a table joins the worker to its clocks.
struct WorkerBeat {
  Micros sent = 0;  ///< on the worker's clock
  std::vector<TableClock> clocks{};
  Micros lease = Timing{}.lease;
  bool leaving = false;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.sent, self.clocks, self.lease, self.leaving);
  }
};

/// How many iterations the slowest worker of a table has completed. Never decreases within a registration; a worker that
/// was given up and came back has a new, higher one.
struct SlowestClock {
  TableId table{};
  ClockCount clock = 0;
  std::uint64_t registration = 0;  ///< of the worker that receives it

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.table, self.clock, self.registration);
  }
};

/// Coordinator to worker.
struct SlowestClocks {
  Micros sent = 0;  ///< of the WorkerBeat that this answers, whose lease it renews; 0: it is news
  std::vector<SlowestClock> slowest{};

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.sent, self.slowest);
  }
};

/// Operator to coordinator: put a shard on these servers, on the reactors that the ring chooses. An empty list returns it
/// to the ring.
struct MoveShard {
  ShardId shard{};
  std::vector<std::uint64_t> servers;  ///< numbers

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.servers);
  }
};

/// Coordinator to server: store the state of these shards, of which it is the tail, in this snapshot.
struct TakeSnapshot {
  std::uint64_t number = 0;
  std::vector<ShardId> shards;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.shards);
  }
};

/// A shard in a snapshot on disk.
struct SnapshotPart {
  ShardId shard{};
  Index applied = 0;  ///< contains the pushes up to this one
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  friend bool operator==(const SnapshotPart&, const SnapshotPart&) = default;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.shard, self.applied, self.bytes, self.checksum);
  }
};

/// Server to coordinator: the shard is on disk.
struct SnapshotWritten {
  std::uint64_t number = 0;
  SnapshotPart part;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.number, self.part);
  }
};

/// Anyone to the coordinator or a server: what have you counted?
struct GetMetrics {
  template <class Io, class Self>
  static void fields(Io& /*io*/, Self& /*self*/) {}
};

struct Metrics {
  struct Sample {
    MetricSample sample;

    template <class Io, class Self>
    static void fields(Io& io, Self& self) {
      io(self.sample.family, self.sample.label, self.sample.value);
    }
  };
  std::vector<Sample> samples;

  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.samples);
  }
};

using Message =
    std::variant<Push, PushDone, Pull, PullDone, WrongView, Forward, Commit, Resume, SyncPoint,
                 SnapshotOffer, FetchChunk, Chunk, ServerBeat, ServerBeatDone, ClusterState,
                 GetState, CreateTable, Refusal, WorkerBeat, SlowestClocks, MoveShard, TakeSnapshot,
                 SnapshotWritten, GetMetrics, Metrics>;

struct Envelope {
  NodeId from{};
  NodeId to{};
  Message message;
};

/// What a state machine wants to send. Borrowed values in it are valid until the machine is called again.
using Outbox = std::vector<Envelope>;

}  // namespace trireme::ps
