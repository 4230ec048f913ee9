#include "ps/simulator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "ps/history.h"
#include "ps/protocol/client.h"
#include "ps/protocol/coordinator.h"
#include "ps/protocol/server.h"

namespace trireme::ps {
namespace {

constexpr Timing kTiming{
    .heartbeat = 10'000, .lease = 50'000, .lease_margin = 6'000, .retry = 15'000};
constexpr Micros kTick = 5'000;
constexpr double kSlowNodes = 0.1;
constexpr std::size_t kMaxLives = 24;  ///< of workers, each with its own component
constexpr Key kCounterKeys = 6;
constexpr TableId kCounters{0};
constexpr TableId kClocked{1};
constexpr SimTime kFaultsEnd = 700'000;
constexpr SimTime kDeadline = 6'000'000;

std::string describe(const View& view) {
  std::string text = fmt::format("epoch {} [", view.epoch);
  for (const Member& member : view.chain) {
    text += fmt::format(" {}.{}", to_text(member.server), member.incarnation);
  }
  return text + (view.learner ? fmt::format(" ] + {}", to_text(view.learner->server)) : " ]");
}

/// A message in a trace.
std::string describe(const Message& message) {
  return std::visit(
      []<class M>(const M& m) -> std::string {
        if constexpr (std::is_same_v<M, Push>) {
          return fmt::format("push shard {} epoch {} sequence {}", static_cast<int>(m.shard),
                             m.epoch, m.sequence);
        } else if constexpr (std::is_same_v<M, PushDone>) {
          return fmt::format("push done shard {} epoch {} sequence {}", static_cast<int>(m.shard),
                             m.epoch, m.sequence);
        } else if constexpr (std::is_same_v<M, Pull>) {
          return fmt::format("pull shard {} epoch {} request {} after {}",
                             static_cast<int>(m.shard), m.epoch, m.request, m.after);
        } else if constexpr (std::is_same_v<M, PullDone>) {
          return fmt::format("pull done shard {} epoch {} request {}", static_cast<int>(m.shard),
                             m.epoch, m.request);
        } else if constexpr (std::is_same_v<M, Forward>) {
          return fmt::format("forward shard {} epoch {} index {}: {:x} {}",
                             static_cast<int>(m.push.shard), m.push.epoch, m.index,
                             static_cast<std::uint64_t>(m.push.worker), m.push.sequence);
        } else if constexpr (std::is_same_v<M, Commit> || std::is_same_v<M, SyncPoint>) {
          return fmt::format("{} shard {} epoch {} index {}",
                             std::is_same_v<M, Commit> ? "commit" : "sync point",
                             static_cast<int>(m.shard), m.epoch, m.index);
        } else if constexpr (std::is_same_v<M, Resume>) {
          return fmt::format("resume shard {} epoch {} applied {} state {}",
                             static_cast<int>(m.shard), m.epoch, m.applied, m.has_state);
        } else if constexpr (std::is_same_v<M, SnapshotOffer>) {
          return fmt::format("snapshot shard {} epoch {} index {}", static_cast<int>(m.shard),
                             m.epoch, m.index);
        } else if constexpr (std::is_same_v<M, ClusterState>) {
          std::string text = "state";
          for (const ShardView& view : m.views) {
            text +=
                fmt::format("; shard {}: {}", static_cast<int>(view.shard), describe(view.view));
          }
          return text;
        } else if constexpr (std::is_same_v<M, WrongView>) {
          return fmt::format("wrong view shard {}: {}", static_cast<int>(m.shard),
                             describe(m.view));
        }
        if constexpr (std::is_same_v<M, WorkerBeat>) {
          std::string text = fmt::format("worker beat sent {}", m.sent);
          for (const TableClock& entry : m.clocks) {
            text += fmt::format("; clock {}", entry.clock);
          }
          return text;
        } else if constexpr (std::is_same_v<M, SlowestClocks>) {
          std::string text = fmt::format("slowest clocks sent {}", m.sent);
          for (const SlowestClock& entry : m.slowest) {
            text += fmt::format("; slowest {} registration {}", entry.clock, entry.registration);
          }
          return text;
        }
        return "other";
      },
      message);
}

/// A cluster under test.
class World {
 public:
  explicit World(const SimulationOptions& options);
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
    std::vector<int>
        required{};  ///< of kClocked: the pushes by worker that the staleness bound demands
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
  [[nodiscard]] bool would_lose(std::size_t process) const;
  [[nodiscard]] bool may_stall(std::span<const ServerNode> nodes) const;
  void cut_off(std::size_t process);
  void pause_server(std::size_t process);
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
  ClockCount staleness_ = 0;
  bool has_faults_ = true;
};

World::World(const SimulationOptions& options) : options_(options), random_(options.seed) {
  processes_ = static_cast<std::size_t>(between(3, 5));
  reactors_ = static_cast<std::size_t>(between(1, 2));
  const auto workers = static_cast<std::size_t>(between(2, 4));
  staleness_ = between(0, 3);
  drop_ = chance(0.5) ? 0.0 : 0.03;
  duplicate_ = chance(0.5) ? 0.0 : 0.03;
  slow_ = chance(0.3) ? 0.0 : 0.03;
  const TableSpec counters{.name = "counters", .keys = kCounterKeys, .width = kMaxLives};
  const TableSpec clocked{.name = "clocked",
                          .keys = 1,
                          .width = kMaxLives,
                          .consistency = staleness_ == 0 ? Consistency::Bsp : Consistency::Ssp,
                          .staleness = staleness_};
  coordinator_options_ = {.shards = 3,
                          .replicas = static_cast<std::size_t>(between(2, 3)),
                          .min_servers = processes_,
                          .timing = kTiming,
                          .tables = {counters, clocked}};
  histories_.assign(kCounterKeys + 1, KeyHistory(kMaxLives));
  start_coordinator();
  servers_.resize(processes_ * reactors_);
  workers_.resize(workers);
  for (std::size_t process = 0; process < processes_; ++process) {
    start_server(process);
  }
  for (std::size_t i = 0; i < workers; ++i) {
    start_worker(i);
  }
}

void World::init_clock(Node& node) {
  node.rate = 1 + static_cast<double>(between(-20, 20)) / 1000;
  node.offset = between(0, 1'000'000'000);
  node.is_up = true;
  node.paused_until = -1'000'000;
  node.period = chance(kSlowNodes) ? between(10'000, 45'000) : 0;
  ++node.life;
  schedule(now_ + between(0, kTick), node.id, std::nullopt);
}

void World::start_coordinator() {
  coordinator_node_.id = NodeId::Coordinator;
  init_clock(coordinator_node_);
  coordinator_ = std::make_unique<Coordinator>(coordinator_options_, updates_,
                                               local(coordinator_node_), durable_);
  persist();
}

void World::persist() {
  if (coordinator_->version() != durable_version_ || durable_.empty()) {
    durable_version_ = coordinator_->version();
    durable_ = coordinator_->durable();
    records_ = coordinator_->shards();
  }
}

void World::start_server(std::size_t process) {
  std::uint64_t reactor = 0;
  for (ServerNode& node : nodes_of(process)) {
    node.id = server_node(process, reactor++);
    init_clock(node);
    node.machine = std::make_unique<Server>(
        ServerOptions{.id = node.id,
                      .incarnation = next_incarnation_++,
                      .reactors = static_cast<std::uint32_t>(reactors_),
                      .address = fmt::format("s{}", static_cast<std::uint64_t>(node.id)),
                      .timing = kTiming,
                      .chunk_bytes = static_cast<std::size_t>(between(200, 2000))},
        updates_);
  }
}

void World::start_worker(std::size_t i) {
  WorkerNode& worker = workers_[i];
  const std::uint64_t life = worker.life;
  worker = WorkerNode{};
  worker.life = life;
  worker.id = worker_node(next_worker_++);
  worker.slot = next_slot_++;
  worker.machine = std::make_unique<Client>(ClientOptions{.id = worker.id, .timing = kTiming});
  init_clock(worker);
}

World::Node* World::node(NodeId id) {
  if (id == NodeId::Coordinator) {
    return &coordinator_node_;
  }
  for (ServerNode& server : servers_) {
    if (server.id == id) {
      return &server;
    }
  }
  for (WorkerNode& worker : workers_) {
    if (worker.id == id) {
      return &worker;
    }
  }
  return nullptr;
}

void World::schedule(SimTime time, NodeId to, std::optional<Envelope> envelope) {
  const Node* const target = node(to);
  events_.push({time, order_++, to, target ? target->life : 0, std::move(envelope)});
}

/// Whether the message would pass between the coordinator and a node that is cut off from it.
bool World::is_cut(const Envelope& envelope) {
  const bool concerns = envelope.from == NodeId::Coordinator || envelope.to == NodeId::Coordinator;
  const Node* const other =
      node(envelope.from == NodeId::Coordinator ? envelope.to : envelope.from);
  return concerns && other && other->cut_until > now_;
}

void World::send(Outbox& out) {
  for (Envelope& envelope : out) {
    if (auto* done = std::get_if<PushDone>(&envelope.message)) {
      done->values.retain();
    } else if (auto* pulled = std::get_if<PullDone>(&envelope.message)) {
      pulled->values.retain();
    }
    if (has_faults_ && (chance(drop_) || is_cut(envelope))) {
      continue;
    }
    const auto delay = [&] { return chance(slow_) ? between(1'000, 80'000) : between(50, 1'500); };
    if (has_faults_ && chance(duplicate_)) {
      schedule(now_ + delay(), envelope.to, envelope);
    }
    const auto to = envelope.to;
    schedule(now_ + delay(), to, std::move(envelope));
  }
  out.clear();
}

void World::dispatch(Event event) {
  Node* const target = node(event.to);
  if (!target || !target->is_up) {
    return;
  }
  const bool is_tick = !event.envelope;
  const bool is_bound = is_tick || event.is_unread || event.to == NodeId::Coordinator;
  if (is_bound && event.life != target->life) {
    return;  // it ended with its process, or with the connection to it
  }
  if (target->paused_until > now_) {
    event.time = target->paused_until;
    event.life = target->life;
    event.is_unread = true;
    events_.push(std::move(event));
    return;
  }
  call(event.to, is_tick ? nullptr : &*event.envelope);
  if (is_tick &&
      target->period > 0) {  // what arrives meanwhile is handled first, as by an event loop
    target->paused_until = std::max(target->paused_until, now_ + target->period);
    schedule(target->paused_until + 1, event.to, std::nullopt);
  } else if (is_tick) {
    schedule(now_ + kTick, event.to, std::nullopt);
  }
}

void World::call(NodeId to, const Envelope* envelope) {
  if (options_.trace && envelope) {
    fmt::print("{:>8} {} -> {}: {}\n", now_, to_text(envelope->from), to_text(to),
               describe(envelope->message));
  }
  Outbox out;
  Node& target = *node(to);
  const auto run = [&](auto& machine) {
    if (envelope) {
      machine.handle(*envelope, local(target), out);
    } else {
      machine.tick(local(target), out);
    }
  };
  if (to == NodeId::Coordinator) {
    if (envelope && is_server(envelope->from)) {
      static_cast<ServerNode&>(*node(envelope->from)).heard = now_;
    }
    run(*coordinator_);
    persist();
    note_registrations();
    send(out);
  } else if (is_server(to)) {
    run(*static_cast<ServerNode&>(target).machine);
    send(out);
  } else {
    auto& worker = static_cast<WorkerNode&>(target);
    run(*worker.machine);
    send(out);
    complete(worker);
    work(worker);
  }
}

// --- Faults.

/// Whether a shard could be left without a replica that has everything, if the process failed now: more failures at a time
/// than the replication promises to survive. A node that was just paused, or whose heartbeats were lost, may be about to
/// lose its place.
bool World::would_lose(std::size_t process) const {
  // A slow coordinator notices late that a server was silent.
  const SimTime patience = (coordinator_node_.period > 0 ? 12 : 2) * kTiming.lease;
  return std::ranges::any_of(records_, [&](const ShardRecord& record) {
    std::size_t left = 0;
    std::set<std::uint64_t> failed;  // processes
    for (std::size_t i = 0; i < record.view.chain.size(); ++i) {
      const Member& member = record.view.chain[i];
      const auto at = std::ranges::find(servers_, member.server, &ServerNode::id);
      const bool is_synced = i + 1 < record.view.chain.size() || record.is_tail_synced;
      const SimTime disturbed =
          std::max({at->paused_until, at->cut_until, coordinator_node_.paused_until});
      const bool is_calm =
          at->period == 0 && now_ - disturbed > patience && now_ - at->heard < kTiming.lease / 2;
      const bool holds =
          at->is_up && is_calm && at->machine->options().incarnation == member.incarnation;
      const bool survives = holds && server_number(at->id) != process;
      left += is_synced && survives ? 1U : 0U;
      if (!survives) {
        failed.insert(server_number(at->id));
      }
    }
    return left == 0 || failed.size() >= coordinator_options_.replicas;
  });
}

/// Whether nobody in the nodes' chains has crashed without the coordinator knowing: otherwise it could take the paused
/// nodes for dead first, and keep the one that is.
bool World::may_stall(std::span<const ServerNode> nodes) const {
  return std::ranges::none_of(records_, [&](const ShardRecord& record) {
    const auto& chain = record.view.chain;
    const bool concerns = std::ranges::any_of(
        nodes, [&](const ServerNode& n) { return record.view.has_member(n.id); });
    return concerns && std::ranges::any_of(chain, [&](const Member& member) {
             const auto at = std::ranges::find(servers_, member.server, &ServerNode::id);
             return !at->is_up || at->machine->options().incarnation != member.incarnation;
           });
  });
}

void World::crash_server(std::size_t process) {
  if (!nodes_of(process).front().is_up) {
    return start_server(process);
  }
  if (!would_lose(process)) {
    for (ServerNode& node : nodes_of(process)) {
      node.is_up = false;
    }
    note("server {} crashes", process);
    ++result_.crashes;
  }
}

/// All its nodes, or one whose thread is stuck.
void World::pause_server(std::size_t process) {
  std::span<ServerNode> nodes = nodes_of(process);
  if (chance(0.5)) {
    nodes = nodes.subspan(
        static_cast<std::size_t>(between(0, static_cast<std::int64_t>(nodes.size()) - 1)), 1);
  }
  if (!may_stall(nodes)) {
    return;
  }
  const SimTime until = now_ + between(5'000, 150'000);
  for (ServerNode& node : nodes) {
    node.paused_until = until;
    note("{} pauses until {}", to_text(node.id), until);
  }
  ++result_.pauses;
}

/// The server and some workers cannot reach the coordinator, but each other.
void World::cut_off(std::size_t process) {
  if (!may_stall(nodes_of(process))) {
    return;
  }
  const SimTime until = now_ + between(60'000, 200'000);
  for (ServerNode& node : nodes_of(process)) {
    node.cut_until = until;
  }
  note("server {} is cut off until {}", process, until);
  for (WorkerNode& worker : workers_) {
    if (chance(0.4)) {
      worker.cut_until = until;
      note("worker {} is cut off, too", worker.slot);
    }
  }
  ++result_.cuts;
}

void World::inject_fault() {
  const std::int64_t kind = between(0, 99);
  const auto server =
      static_cast<std::size_t>(between(0, static_cast<std::int64_t>(processes_) - 1));
  const auto worker =
      static_cast<std::size_t>(between(0, static_cast<std::int64_t>(workers_.size()) - 1));
  if (kind < 30) {
    crash_server(server);
  } else if (kind < 40) {
    cut_off(server);
  } else if (kind < 60) {
    pause_server(server);
  } else if (kind < 70) {
    coordinator_node_.paused_until = now_ + between(5'000, 100'000);
    note("the coordinator pauses until {}", coordinator_node_.paused_until);
    ++result_.pauses;
  } else if (kind < 80) {
    ++result_.crashes;
    note("the coordinator restarts");
    start_coordinator();
  } else if (kind < 86) {
    workers_[worker].paused_until = now_ + between(5'000, 120'000);
    ++result_.pauses;
  } else if (kind < 90 && next_slot_ < kMaxLives) {
    ++result_.crashes;
    start_worker(worker);
  } else {
    std::vector<std::uint64_t> to;
    for (std::uint64_t candidate = 0; candidate < processes_; ++candidate) {
      if (to.size() < coordinator_options_.replicas && chance(0.6)) {
        to.push_back(candidate);
      }
    }
    ++result_.moves;
    Outbox out;
    out.push_back({workers_[worker].id, NodeId::Coordinator,
                   MoveShard{static_cast<ShardId>(between(0, 2)), to}});
    send(out);
  }
}

void World::end_faults() {
  has_faults_ = false;
  slow_ = 0;
  for (std::size_t process = 0; process < processes_; ++process) {
    if (!nodes_of(process).front().is_up) {
      start_server(process);
    }
  }
}

// --- Workers.

void World::work(WorkerNode& worker) {
  Client& client = *worker.machine;
  if (!client.is_ready()) {
    return;
  }
  Outbox out;
  if (!worker.has_joined) {
    worker.has_joined = true;
    client.join_clock(kClocked, local(worker), out);
    send(out);
  }
  if (worker.is_in_iteration) {
    if (worker.ops_left == 0) {
      worker.is_in_iteration = false;
      client.complete_iteration(kClocked, local(worker), out);
      ++result_.iterations;
      send(out);
    } else if (worker.pending.size() < 6) {
      begin_op(worker);
    }
  } else if (has_faults_ && client.may_start(kClocked, local(worker))) {
    start_iteration(worker);
  }
}

void World::start_iteration(WorkerNode& worker) {
  check_start(worker);
  worker.is_in_iteration = true;
  worker.ops_left = static_cast<int>(between(2, 5));
  Outbox out;
  pull(worker, kClocked, {0}, out);
  push(worker, kClocked, {0}, chance(0.5) ? Reply::Values : Reply::Acknowledge, out);
  worker.iterations.push_back(worker.machine->clock(kClocked));
  send(out);
}

void World::note_registrations() {
  for (WorkerNode& worker : workers_) {
    const auto joined = coordinator_->joined_at(kClocked, worker.id);
    worker.was_given_up = worker.was_given_up || (worker.joined_at && joined != worker.joined_at);
    worker.joined_at = joined;
  }
}

void World::check_start(const WorkerNode& worker) {
  const ClockCount own = worker.machine->clock(kClocked);
  for (const WorkerNode& other : workers_) {
    if (other.joined_at) {
      const ClockCount clock = std::max(other.machine->clock(kClocked), *other.joined_at);
      if (own - clock > staleness_) {
        fail(
            fmt::format("worker {} starts iteration {} although worker {} has completed {}, s = {}",
                        worker.slot, own, other.slot, clock, staleness_));
      }
    }
  }
}

void World::begin_op(WorkerNode& worker) {
  --worker.ops_left;
  // Two keys of one shard, or one.
  const Key first = static_cast<Key>(between(0, 2)) * 2;
  std::vector<Key> keys = chance(0.3) ? std::vector<Key>{first, first + 1}
                                      : std::vector<Key>{first + static_cast<Key>(between(0, 1))};
  Outbox out;
  if (chance(0.5)) {
    push(worker, kCounters, std::move(keys), chance(0.3) ? Reply::Values : Reply::Acknowledge, out);
  } else {
    pull(worker, kCounters, keys, out);
  }
  send(out);
}

void World::push(WorkerNode& worker, TableId table, std::vector<Key> keys, Reply reply,
                 Outbox& out) {
  PendingOp op{.is_push = true,
               .is_read = reply == Reply::Values,
               .table = table,
               .keys = keys,
               .begin = now_};
  std::vector<float> ones(keys.size() * kMaxLives, 0.0F);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ones[i * kMaxLives + worker.slot] = 1;
    op.numbers.push_back(history(table, keys[i]).begin_push(worker.slot, now_));
    op.own.push_back(history(table, keys[i]).begun(worker.slot));
  }
  const Part part = worker.machine->split(table, KeySet{.list = keys}).at(0);
  const OpId id = worker.machine->push(table, part, Values::copy(ones), reply, local(worker), out);
  worker.pending.emplace(id, std::move(op));
}

void World::pull(WorkerNode& worker, TableId table, const std::vector<Key>& keys, Outbox& out) {
  PendingOp op{.is_read = true, .table = table, .keys = keys, .begin = now_};
  for (const Key key : keys) {
    op.own.push_back(history(table, key).begun(worker.slot));
  }
  if (table == kClocked) {
    op.required.assign(kMaxLives, 0);
    for (const WorkerNode& other : workers_) {
      if (other.joined_at && !other.was_given_up) {
        const ClockCount bound = worker.machine->clock(kClocked) - staleness_;
        op.required[other.slot] = static_cast<int>(
            std::ranges::count_if(other.iterations, [&](ClockCount c) { return c < bound; }));
      }
    }
  }
  const Part part = worker.machine->split(table, KeySet{.list = keys}).at(0);
  worker.pending.emplace(worker.machine->pull(table, part, local(worker), out), std::move(op));
}

void World::complete(WorkerNode& worker) {
  for (const Completion& completion : worker.machine->take_completions()) {
    finish(worker, completion);
  }
}

void World::finish(WorkerNode& worker, const Completion& completion) {
  const auto at = worker.pending.find(completion.op);
  if (at == worker.pending.end()) {
    return fail("an operation completed twice");
  }
  const PendingOp& op = at->second;
  for (std::size_t i = 0; op.is_push && i < op.keys.size(); ++i) {
    history(op.table, op.keys[i]).end_push(worker.slot, op.numbers[i], now_);
    ++result_.acknowledged;
  }
  if (op.is_read) {
    note_read(worker, op, completion.values);
  }
  worker.pending.erase(at);
}

void World::note_read(const WorkerNode& worker, const PendingOp& op, const Values& values) {
  if (values.size() != op.keys.size() * kMaxLives) {
    return fail("a read returned a vector of another size");
  }
  for (std::size_t i = 0; i < op.keys.size(); ++i) {
    std::vector<int> seen;
    for (const float count : values.view().subspan(i * kMaxLives, kMaxLives)) {
      seen.push_back(static_cast<int>(count));
    }
    if (seen[worker.slot] < op.own[i]) {
      fail(fmt::format("worker {} does not read its own write", worker.slot));
    }
    for (std::size_t w = 0; w < op.required.size(); ++w) {
      if (seen[w] < op.required[w]) {
        fail(fmt::format("worker {} reads {} updates of worker {} where s = {} demands {}",
                         worker.slot, seen[w], w, staleness_, op.required[w]));
      }
    }
    history(op.table, op.keys[i]).add_read(op.begin, now_, std::move(seen));
    ++result_.reads;
  }
}

// --- The run.

bool World::is_done() {
  return std::ranges::all_of(workers_, [](const WorkerNode& worker) {
    return worker.pending.empty() && !worker.is_in_iteration;
  });
}

/// A last read of every key by a new worker: exactly what was acknowledged, and of dead workers perhaps more.
void World::check_end() {
  WorkerNode reader;
  start_worker(0);
  workers_[0].has_joined = true;  // only reads
  const auto tables = {std::pair(kCounters, kCounterKeys), std::pair(kClocked, Key{1})};
  while (!workers_[0].machine->is_ready() && !events_.empty() && now_ < kDeadline + kFaultsEnd) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    dispatch(std::move(event));
  }
  if (!workers_[0].machine->is_ready()) {
    return fail("a new worker gets no answer");
  }
  Outbox out;
  for (const auto& [table, keys] : tables) {
    for (Key key = 0; key < keys; ++key) {
      pull(workers_[0], table, {key}, out);
    }
  }
  send(out);
  while (!workers_[0].pending.empty() && !events_.empty() && now_ < 2 * kDeadline) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    dispatch(std::move(event));
  }
  if (!workers_[0].pending.empty()) {
    return fail("the last reads have not finished");
  }
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    if (const std::string problem = histories_[i].problem(); !problem.empty()) {
      fail(fmt::format("key {}: {}", i, problem));
    }
  }
}

/// Soon after the faults, every shard has its replicas in different processes.
void World::check_placement() {
  const std::size_t wanted = std::min(coordinator_options_.replicas, processes_);
  const auto is_spread = [&](const ShardRecord& record) {
    return record.view.processes() >= wanted;
  };
  while (!std::ranges::all_of(records_, is_spread) && !events_.empty() && now_ < 2 * kDeadline) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    dispatch(std::move(event));
  }
  for (const ShardRecord& record : records_) {
    if (!is_spread(record)) {
      fail(fmt::format("replicas share processes: {}", describe(record.view)));
    }
  }
}

SimulationResult World::run() {
  SimTime next_fault = 60'000;
  const SimTime fault_gap = between(10'000, 60'000);
  while (!events_.empty() && result_.problem.empty()) {
    Event event = events_.top();
    events_.pop();
    now_ = event.time;
    ++result_.events;
    if (has_faults_ && now_ > kFaultsEnd) {
      end_faults();
    }
    if (has_faults_ && now_ > next_fault) {
      next_fault = now_ + between(fault_gap / 2, fault_gap * 2);
      inject_fault();
    }
    dispatch(std::move(event));
    if (!has_faults_ && is_done()) {
      check_end();
      check_placement();
      break;
    }
    if (now_ > kDeadline) {
      std::string left;
      for (const WorkerNode& worker : workers_) {
        left +=
            fmt::format("; worker {}: {} operations, {} in the client, {} iteration {}",
                        worker.slot, worker.pending.size(), worker.machine->pending(),
                        worker.is_in_iteration ? "in" : "after", worker.machine->clock(kClocked));
      }
      fail("operations have not finished although the faults ended" + left);
    }
  }
  for (const ShardRecord& record : records_) {
    result_.epochs += record.view.epoch;
  }
  return result_;
}

}  // namespace

SimulationResult simulate(const SimulationOptions& options) {
  return World(options).run();
}

}  // namespace trireme::ps
