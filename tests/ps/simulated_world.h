// SimulatedWorld: a cluster under test, with a network, clocks and faults drawn from a seed. Defined in several files:
// simulator.cpp (the run and its last checks), simulated_network.cpp (nodes, messages, time), simulated_faults.cpp and
// simulated_workers.cpp (what workers do, and what they must see). One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ps/history.h"
#include "ps/protocol/client.h"
#include "ps/protocol/coordinator.h"
#include "ps/protocol/server.h"
#include "ps/simulator.h"

namespace trireme::ps {

inline constexpr Timing kTiming{
    .heartbeat = 10'000, .lease = 50'000, .lease_margin = 6'000, .retry = 15'000};
inline constexpr Micros kTick = 5'000;
inline constexpr double kSlowNodes = 0.1;
inline constexpr std::size_t kMaxLives = 24;  ///< of workers, each with its own component
inline constexpr Key kCounterKeys = 6;
inline constexpr TableId kCounters{0};
inline constexpr TableId kClocked{1};
inline constexpr double kStarvedRuns = 0.25;
inline constexpr SimTime kFaultsEnd = 700'000;
inline constexpr SimTime kDeadline = 6'000'000;
inline constexpr SimTime kForever = 1'000'000'000;

class SimulatedWorld {
 public:
  explicit SimulatedWorld(const SimulationOptions& options);
  [[nodiscard]] SimulationResult run();

 private:
  struct Node {
    NodeId id{};
    double rate = 1;
    Micros offset = 0;
    SimTime paused_until = -1'000'000;
    SimTime cut_until = -1'000'000;  ///< from the coordinator
    SimTime period = 0;              ///< of a slow node: it runs once in this time
    std::uint64_t life = 0;          ///< counts restarts: events of former lives are void
    bool is_up = true;
  };
  struct ServerNode : Node {
    std::unique_ptr<Server> machine;
    SimTime heard = 0;  ///< when the coordinator last had a message from it
  };
  /// What a worker waits for.
  struct PendingOp {
    bool is_push = false;
    bool is_read = false;
    TableId table{};
    std::vector<Key> keys{};
    std::vector<std::size_t> numbers{};  ///< of the push in each key's history
    std::vector<int> own{};  ///< the worker's own pushes that a read must include, by key
    SimTime begin = 0;
    /// Of kClocked: the pushes by worker that the staleness bound demands.
    std::vector<int> required{};
  };
  struct WorkerNode : Node {
    std::unique_ptr<Client> machine;
    std::size_t slot = 0;
    std::map<OpId, PendingOp> pending;
    bool has_joined = false;
    std::optional<ClockCount> joined_at;
    bool was_given_up =
        false;  ///< the coordinator removed it from the clocks, at least for a while
    bool is_in_iteration = false;
    int ops_left = 0;
    std::vector<ClockCount> iterations;  ///< of its pushes to kClocked
  };
  struct Event {
    SimTime time = 0;
    std::uint64_t order = 0;
    NodeId to{};
    std::uint64_t life = 0;
    std::optional<Envelope> envelope;  ///< otherwise a tick
    bool is_unread = false;            ///< has arrived at a node that is paused
    friend bool operator>(const Event& a, const Event& b) {
      return std::pair(a.time, a.order) > std::pair(b.time, b.order);
    }
  };

  [[nodiscard]] bool chance(double p) {
    return std::uniform_real_distribution<>(0, 1)(random_) < p;
  }
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  [[nodiscard]] Node* node(NodeId id);
  [[nodiscard]] Micros local(const Node& node) const {
    return node.offset + static_cast<Micros>(static_cast<double>(now_) * node.rate);
  }
  void schedule(SimTime time, NodeId to, std::optional<Envelope> envelope);
  [[nodiscard]] bool is_cut(const Envelope& envelope);
  [[nodiscard]] SimTime time_without_core(const Node& node);
  void send(Outbox& out);
  void dispatch(Event event);
  void call(NodeId to, const Envelope* envelope);
  void fail(const std::string& what) {
    if (result_.problem.empty()) {
      result_.problem = fmt::format("at {} us: {}", now_, what);
    }
  }

  void start_coordinator();
  void persist();
  void start_server(std::size_t process);
  void start_worker(std::size_t i);
  void init_clock(Node& node);
  void inject_fault();
  template <class... T>
  void note(fmt::format_string<T...> text, T&&... values) const {
    if (options_.trace) {
      fmt::print("{:>8} *** {}\n", now_, fmt::format(text, std::forward<T>(values)...));
    }
  }
  /// The nodes of a process.
  [[nodiscard]] std::span<ServerNode> nodes_of(std::size_t process) {
    return std::span(servers_).subspan(process * reactors_, reactors_);
  }
  void crash_server(std::size_t process);
  void begin_leave(std::size_t process);
  void end_leave(std::size_t process);
  [[nodiscard]] bool would_lose(std::size_t process) const;
  [[nodiscard]] bool may_stall(std::span<const ServerNode> nodes) const;
  void cut_off(std::size_t process);
  void pause_server(std::size_t process);
  void starve();
  void end_faults();

  void work(WorkerNode& worker);
  void start_iteration(WorkerNode& worker);
  void begin_op(WorkerNode& worker);
  void push(WorkerNode& worker, TableId table, std::vector<Key> keys, Reply reply, Outbox& out);
  void pull(WorkerNode& worker, TableId table, const std::vector<Key>& keys, Outbox& out);
  void complete(WorkerNode& worker);
  void finish(WorkerNode& worker, const Completion& completion);
  void note_read(const WorkerNode& worker, const PendingOp& op, const Values& values);
  void note_registrations();
  void check_start(const WorkerNode& worker);
  [[nodiscard]] bool is_done();
  void check_end();
  void check_placement();
  [[nodiscard]] KeyHistory& history(TableId table, Key key) {
    return histories_.at(table == kCounters ? key : kCounterKeys + key);
  }

  SimulationOptions options_;
  SimulationResult result_;
  std::mt19937_64 random_;
  UpdateRegistry updates_;
  SimTime now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  CoordinatorOptions coordinator_options_;
  Node coordinator_node_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string durable_;
  std::uint64_t durable_version_ = 0;
  std::vector<ShardRecord> records_;
  std::size_t processes_ = 0;
  std::size_t reactors_ = 1;         ///< of each process
  std::vector<ServerNode> servers_;  ///< the nodes of process 0, then those of process 1, …
  std::vector<WorkerNode> workers_;
  std::vector<KeyHistory> histories_;
  std::size_t next_slot_ = 0;
  Incarnation next_incarnation_ = 1;
  std::uint64_t next_worker_ = 1;
  double drop_ = 0;
  double duplicate_ = 0;
  double slow_ = 0;
  SimTime longest_wait_ = 0;  ///< of nodes for a core, while the machine is overloaded
  SimTime starved_until_ = -1'000'000;
  ClockCount staleness_ = 0;
  bool has_faults_ = true;
  std::optional<std::size_t> leaving_{};  ///< the process that hands its shards over
};

}  // namespace trireme::ps
