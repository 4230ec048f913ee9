// Replica: one server's copy of one shard, in a chain of them (van Renesse and Schneider, 2004).
//
//   worker ──Push──► head ──Forward──► … ──Forward──► tail ──PushDone──► worker
//                     ◄─────Commit──── … ◄───Commit────┘  ◄──Pull── worker
//
// The head gives each push an index; every replica applies pushes in the order of their indices, so each holds a prefix
// of what its predecessor holds. The tail acknowledges: by then all have it. Replicas keep what is not committed in a log
// and send it again after a change of view, when their successor says with Resume where to continue. A successor that is
// too far behind for the log, as a learner is at first, fetches a snapshot in chunks.
//
// Pure: no I/O, no clock, no threads. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ps/protocol/message.h"
#include "ps/protocol/shard_state.h"

namespace trireme::ps {

struct ReplicaOptions {
  ShardId shard{};
  std::uint32_t shard_count = 1;
  Member self;
  Micros retry = 0;
  std::size_t chunk_bytes = std::size_t{256} << 10;  ///< of a snapshot
};

class Replica {
 public:
  /// Empty. `tables` must outlive it.
  Replica(const ReplicaOptions& options, const KnownTables& tables);

  /// Adopts a view with a higher epoch, in which this server is a member or the learner.
  void adopt(const View& view, Micros now, Outbox& out);
  /// Replaces the state. Throws Error(Input) if the bytes are not a state of this shard.
  void restore(std::string_view bytes);
  [[nodiscard]] std::string snapshot() const { return state_.encode(); }
  /// Whether a snapshot has exactly the committed pushes: everything that was acknowledged, and nothing that may vanish.
  [[nodiscard]] bool is_committed() const { return is_tail() && synced_; }

  [[nodiscard]] const View& view() const noexcept { return view_; }
  [[nodiscard]] Progress progress() const;
  [[nodiscard]] Index applied() const noexcept { return state_.applied(); }

  void handle(const Push& push, Micros now, Outbox& out);
  /// `has_lease`: no other server can be the tail now. Otherwise the pull waits for confirm().
  void handle(const Pull& pull, Micros now, bool has_lease, Outbox& out);
  /// At some time after `when` no other server was the tail of a later view: answers pulls that arrived before.
  void confirm(Micros when, Outbox& out);
  void handle(NodeId from, const Forward& forward, Micros now, Outbox& out);
  void handle(NodeId from, const Commit& commit, Micros now, Outbox& out);
  void handle(NodeId from, const Resume& resume, Outbox& out);
  void handle(NodeId from, const SyncPoint& point, Outbox& out);
  void handle(NodeId from, const SnapshotOffer& offer, Micros now, Outbox& out);
  void handle(NodeId from, const FetchChunk& fetch, Outbox& out);
  void handle(NodeId from, const Chunk& chunk, Micros now, Outbox& out);
  /// Repeats what had no answer for a while.
  void tick(Micros now, Outbox& out);
  /// What was sent to this node before may be lost: tick() repeats it at once.
  void reconnected(NodeId node, Micros now);

 private:
  struct Entry {
    Index index = 0;
    Push push;
    bool is_repeated = false;  ///< by its worker, which may have missed the tail's answer
  };
  /// A snapshot being sent.
  struct Outgoing {
    Index index = 0;
    std::string bytes;
  };
  /// A snapshot being received.
  struct Incoming {
    Index index = 0;
    std::uint64_t size = 0;
    std::string bytes;
  };
  /// A pull that cannot be answered yet.
  struct WaitingPull {
    Pull pull;
    Micros arrived = 0;
    bool is_confirmed = false;  ///< since it arrived, nobody else was the tail at some time
  };

  [[nodiscard]] bool is_learner() const { return place_ == view_.chain.size(); }
  [[nodiscard]] bool is_head() const { return place_ == 0; }
  [[nodiscard]] bool is_tail() const { return place_ + 1 == view_.chain.size(); }
  [[nodiscard]] std::optional<NodeId> predecessor() const;
  /// Who gets what this replica applies: its successor, or the learner behind the tail.
  [[nodiscard]] std::optional<NodeId> follower() const;
  [[nodiscard]] bool is_current(Epoch epoch) const;
  /// The entry of a push that is not committed yet, or nullptr.
  [[nodiscard]] Entry* uncommitted(NodeId worker, Sequence sequence);

  void start_over();
  void append(const Push& push, Micros now, Outbox& out);
  void acknowledge(const Push& push, Outbox& out);
  void acknowledge_repeated(const Push& push, Outbox& out) const;
  void commit(Index index, Micros now, Outbox& out);
  void truncate();
  void send(NodeId to, Message message, Outbox& out) const;
  void pump(Outbox& out);
  void ask_to_resume(Micros now, Outbox& out);
  void fetch_next(Micros now, Outbox& out);
  [[nodiscard]] bool has_what_it_needs(const Pull& pull) const;
  void keep(const Pull& pull, Micros now, bool is_confirmed);
  void serve_waiting(Outbox& out);
  void serve(const Pull& pull, Outbox& out);

  ReplicaOptions options_;
  const KnownTables* tables_;  ///< of the server, which outlives its replicas
  ShardState state_;
  View view_;
  std::size_t place_ = 0;  ///< in the chain; its length for the learner
  bool has_state_ = true;  ///< false for a learner until it has a snapshot
  bool synced_ = true;     ///< holds everything that was ever acknowledged
  bool is_linked_ = true;  ///< the predecessor has answered in this epoch
  Index epoch_begin_ = 0;  ///< what was applied when the epoch began
  std::optional<Index> sync_point_;
  Index committed_ = 0;
  Index follower_has_ = 0;     ///< as it has reported in this epoch
  bool is_streaming_ = false;  ///< the follower has reported where to begin
  Index sent_ = 0;             ///< to the follower
  std::deque<Entry> log_;  ///< applied, but not known to be committed, or still needed by a learner
  std::optional<Outgoing> outgoing_;
  std::optional<Incoming> incoming_;
  std::deque<WaitingPull> waiting_;
  Micros heard_predecessor_ = 0;
  Micros asked_predecessor_ = 0;
  Micros heard_follower_ = 0;
};

}  // namespace trireme::ps
