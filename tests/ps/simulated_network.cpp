// Nodes, messages and time.
#include <algorithm>
#include <utility>

#include "ps/message_text.h"
#include "ps/simulated_world.h"

namespace trireme::ps {

SimulatedWorld::SimulatedWorld(const SimulationOptions& options)
    : options_(options), random_(options.seed) {
  processes_ = static_cast<std::size_t>(between(3, 5));
  reactors_ = static_cast<std::size_t>(between(1, 2));
  const auto workers = static_cast<std::size_t>(between(2, 4));
  staleness_ = between(0, 3);
  drop_ = chance(0.5) ? 0.0 : 0.03;
  duplicate_ = chance(0.5) ? 0.0 : 0.03;
  slow_ = chance(0.3) ? 0.0 : 0.03;
  longest_wait_ = chance(kStarvedRuns) ? between(kTiming.lease / 2, 3 * kTiming.lease) : 0;
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

void SimulatedWorld::init_clock(Node& node) {
  node.rate = 1 + static_cast<double>(between(-20, 20)) / 1000;
  node.offset = between(0, 1'000'000'000);
  node.is_up = true;
  node.paused_until = -1'000'000;
  node.period = chance(kSlowNodes) ? between(10'000, 45'000) : 0;
  ++node.life;
  schedule(now_ + between(0, kTick), node.id, std::nullopt);
}

void SimulatedWorld::start_coordinator() {
  coordinator_node_.id = NodeId::Coordinator;
  init_clock(coordinator_node_);
  coordinator_ = std::make_unique<Coordinator>(coordinator_options_, updates_,
                                               local(coordinator_node_), durable_);
  persist();
}

void SimulatedWorld::persist() {
  if (coordinator_->version() != durable_version_ || durable_.empty()) {
    durable_version_ = coordinator_->version();
    durable_ = coordinator_->durable();
    records_ = coordinator_->shards();
  }
}

void SimulatedWorld::start_server(std::size_t process) {
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

void SimulatedWorld::start_worker(std::size_t i) {
  WorkerNode& worker = workers_[i];
  const std::uint64_t life = worker.life;
  worker = WorkerNode{};
  worker.life = life;
  worker.id = worker_node(next_worker_++);
  worker.slot = next_slot_++;
  worker.machine = std::make_unique<Client>(ClientOptions{.id = worker.id, .timing = kTiming});
  init_clock(worker);
}

SimulatedWorld::Node* SimulatedWorld::node(NodeId id) {
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

void SimulatedWorld::schedule(SimTime time, NodeId to, std::optional<Envelope> envelope) {
  const Node* const target = node(to);
  events_.push({time, order_++, to, target ? target->life : 0, std::move(envelope)});
}

/// Whether the message would pass between the coordinator and a node that is cut off from it.
bool SimulatedWorld::is_cut(const Envelope& envelope) {
  const bool concerns = envelope.from == NodeId::Coordinator || envelope.to == NodeId::Coordinator;
  const Node* const other =
      node(envelope.from == NodeId::Coordinator ? envelope.to : envelope.from);
  return concerns && other && other->cut_until > now_;
}

void SimulatedWorld::send(Outbox& out) {
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

void SimulatedWorld::dispatch(Event event) {
  if (leaving_) {
    end_leave(*leaving_);
  }
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
  if (!is_tick) {
    return;
  }
  if (const SimTime wait = time_without_core(*target); wait > 0) {
    target->paused_until = std::max(target->paused_until, now_ + wait);
    schedule(target->paused_until + 1, event.to, std::nullopt);  // after what arrives meanwhile
  } else {
    schedule(now_ + kTick, event.to, std::nullopt);
  }
}

/// Until the node runs again after a tick. What arrives meanwhile is handled first then, as by an event loop.
SimTime SimulatedWorld::time_without_core(const Node& node) {
  const bool is_starved = now_ < starved_until_;
  return is_starved ? std::max(node.period, between(1, longest_wait_)) : node.period;
}

void SimulatedWorld::call(NodeId to, const Envelope* envelope) {
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

}  // namespace trireme::ps
