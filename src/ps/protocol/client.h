// Client: a worker's side of the protocol. Numbers its pushes, finds the servers, repeats what has no answer, and applies
// the clock rule. Operations are about keys of one shard; split() divides larger ones.
//
// A push without an answer is repeated until it is acknowledged, whatever its caller's deadline: leaving a number out
// would stop all later pushes to the shard.
//
// Pure: no I/O, no clock, no threads. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/indexed_vector.h"
#include "ps/protocol/message.h"

namespace trireme::ps {

using OpId = std::uint64_t;

struct ClientOptions {
  NodeId id = worker_node(1);
  Timing timing{};
};

/// An operation that is done.
struct Completion {
  OpId op = 0;
  Values values;  ///< of a pull, or a push that requested them
};

/// The part of a request that belongs to one shard.
struct Part {
  ShardId shard{};
  KeySet keys;
  std::size_t first = 0;  ///< where its keys begin in the request
};

class Client {
 public:
  explicit Client(const ClientOptions& options) : options_(options) {}

  void handle(const Envelope& envelope, Micros now, Outbox& out);
  /// To be called every few milliseconds.
  void tick(Micros now, Outbox& out);
  /// The connection to a server is new: what was sent before may be lost.
  void reconnected(NodeId server, Micros now, Outbox& out);

  /// Whether the servers and shards are known.
  [[nodiscard]] bool is_ready() const noexcept { return !lanes_.empty(); }
  /// Whether the coordinator has answered, perhaps that there are no shards yet.
  [[nodiscard]] bool has_state() const noexcept { return has_state_; }
  void create_table(const TableSpec& spec, Outbox& out);
  /// Why the coordinator refused a table, if it did.
  [[nodiscard]] const std::map<std::string, std::string>& refusals() const { return refusals_; }
  [[nodiscard]] std::optional<TableId> find_table(std::string_view name) const;
  [[nodiscard]] const TableSpec& table(TableId id) const { return tables_.at(id); }
  [[nodiscard]] const std::map<NodeId, std::string>& addresses() const { return addresses_; }
  /// Of the servers in addresses().
  [[nodiscard]] ServerCondition condition(NodeId server) const { return conditions_.at(server); }
  /// As of the coordinator's last message.
  [[nodiscard]] bool is_healthy() const noexcept { return is_healthy_; }
  /// As of the last complete state.
  [[nodiscard]] const std::vector<StuckShard>& stuck() const noexcept { return stuck_; }
  [[nodiscard]] std::uint64_t states_received() const noexcept { return states_received_; }
  [[nodiscard]] const std::vector<TableSpec>& tables() const noexcept { return tables_.items(); }
  [[nodiscard]] std::uint32_t shard_count() const {
    return static_cast<std::uint32_t>(lanes_.size());
  }
  /// What nodes have answered to ask_for_metrics() since.
  [[nodiscard]] const std::map<NodeId, Metrics>& metrics() const noexcept { return metrics_; }
  /// Of the coordinator and all servers that have not answered yet.
  void ask_for_metrics(Outbox& out) const;
  void forget_metrics() { metrics_.clear(); }
  /// Unless it was requested a moment ago.
  void ask_for_state(Micros now, Outbox& out);
  [[nodiscard]] const View& view(ShardId shard) const { return lanes_.at(shard).view; }

  /// Requires is_ready(). A list must be sorted.
  [[nodiscard]] std::vector<Part> split(TableId table, const KeySet& keys) const;
  /// Copies borrowed values, but not pinned ones. Require is_ready() and keys of one shard.
  OpId push(TableId table, const Part& part, Values values, Reply reply, Micros now, Outbox& out);
  OpId pull(TableId table, const Part& part, Micros now, Outbox& out);
  /// The operation that waits for such an answer, if one does.
  [[nodiscard]] std::optional<OpId> find_push(ShardId shard, Sequence sequence) const;
  [[nodiscard]] std::optional<OpId> find_pull(ShardId shard, std::uint64_t request) const;
  /// Operations that were completed since the last call. Their values are valid until the next call of any function.
  [[nodiscard]] std::vector<Completion> take_completions();
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  /// Copies the pinned values of pushes that are not acknowledged.
  void detach();

  /// Joins the clocks of a table; from now on others may wait for this worker.
  void join_clock(TableId table, Micros now, Outbox& out);
  /// One more iteration is done. Others learn it when its pushes are acknowledged.
  void complete_iteration(TableId table, Micros now, Outbox& out);
  /// The same for iterations up to this clock, unless they are done.
  void advance_clock(TableId table, ClockCount to, Micros now, Outbox& out);
  /// The clock rule. False until the coordinator has admitted this worker, and while it may have given it up.
  [[nodiscard]] bool may_start(TableId table, Micros now) const;
  [[nodiscard]] ClockCount clock(TableId table) const;
  /// The slowest worker's clock, if it is known.
  [[nodiscard]] std::optional<ClockCount> slowest(TableId table) const;
  void leave(Outbox& out);

 private:
  struct PendingPush {
    OpId op = 0;
    Push message;
    Micros sent = 0;  ///< last
  };
  struct PendingPull {
    OpId op = 0;
    Pull message;
    Micros sent = 0;  ///< last
  };
  /// The traffic with one shard.
  struct Lane {
    View view;
    Sequence next = 1;
    std::deque<PendingPush> pushes;  ///< in the order of their sequence numbers
    std::map<std::uint64_t, PendingPull> pulls;
    Micros last_progress = 0;
    Micros patience = 0;
    bool is_refused = false;  ///< by a server that does not know this view, yet or any more
    Micros refused_wait = 0;  ///< before requests are repeated in this view
  };
  struct IterationEnd {
    ClockCount clock = 0;
    OpId before = 0;  ///< pushes with a smaller number belong to it
  };
  struct WorkerClock {
    ClockCount completed = 0;
    ClockCount reported = 0;
    std::optional<ClockCount> slowest;
    std::uint64_t registration = 0;
    std::optional<Micros> lease_begin;  ///< from when on the coordinator counts this worker
    std::deque<IterationEnd> unreported;
  };

  [[nodiscard]] Lane& lane(ShardId shard) { return lanes_.at(shard); }
  [[nodiscard]] bool has(ShardId shard) const { return lanes_.contains(shard); }
  void take(const ClusterState& state, Micros now, Outbox& out);
  void take(const PushDone& done, Micros now, Outbox& out);
  void take(const PullDone& done, Micros now);
  void take(const WrongView& answer, Micros now, Outbox& out);
  void take(const SlowestClocks& message);
  void adopt(Lane& lane, const View& view, Micros now, Outbox& out);
  void send(const Lane& lane, Push message, Outbox& out);
  void send(const Lane& lane, Pull message, Outbox& out);
  void send_again(Lane& lane, Micros now, Outbox& out);
  void repeat_refused(Lane& lane, Micros now, Outbox& out);
  void send_lost(Lane& lane, Micros now, Outbox& out);
  void note_progress(Lane& lane, Micros now);
  void start_pull(Lane& lane, OpId op, Pull message, Micros now, Outbox& out);
  void report_clocks(Micros now, Outbox& out);
  void beat(Micros now, Outbox& out);

  ClientOptions options_;
  IndexedVector<ShardId, Lane> lanes_;
  IndexedVector<TableId, TableSpec> tables_;
  std::map<std::string, std::string> refusals_;
  std::map<NodeId, std::string> addresses_;
  std::map<NodeId, ServerCondition> conditions_;
  std::map<TableId, WorkerClock> clocks_;
  std::map<NodeId, Metrics> metrics_;
  std::vector<Completion> completions_;
  OpId next_op_ = 1;
  std::size_t pending_ = 0;
  bool is_healthy_ = false;
  bool has_state_ = false;
  std::vector<StuckShard> stuck_;
  std::uint64_t states_received_ = 0;  ///< complete ones
  std::optional<Micros> asked_;
  std::optional<Micros> beaten_;
};

}  // namespace trireme::ps
