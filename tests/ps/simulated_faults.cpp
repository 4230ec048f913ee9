// What fails, and when it may: never more at a time than the replication promises to survive.
#include <algorithm>
#include <set>

#include "ps/simulated_world.h"

namespace trireme::ps {

/// Whether a shard could be left without a replica that has everything, if the process failed now: more failures at a time
/// than the replication promises to survive. A node that was just paused, or whose heartbeats were lost, may be about to
/// lose its place. One that hands its shards over has failed.
bool SimulatedWorld::would_lose(std::size_t process) const {
  // A slow coordinator notices late that a server was silent.
  const SimTime patience = (coordinator_node_.period > 0 ? 12 : 2) * kTiming.lease;
  return std::ranges::any_of(records_, [&](const ShardRecord& record) {
    std::size_t left = 0;
    std::set<std::uint64_t> failed;  // processes
    for (std::size_t i = 0; i < record.view.chain.size(); ++i) {
      const Member& member = record.view.chain[i];
      const auto at = std::ranges::find(servers_, member.server, &ServerNode::id);
      const bool is_synced = i + 1 < record.view.chain.size() || record.is_tail_synced;
      const SimTime disturbed = std::max(
          {at->paused_until, at->cut_until, coordinator_node_.paused_until, starved_until_});
      const bool is_calm =
          at->period == 0 && now_ - disturbed > patience && now_ - at->heard < kTiming.lease / 2;
      const bool holds =
          at->is_up && is_calm && at->machine->options().incarnation == member.incarnation;
      const bool stays = server_number(at->id) != process && server_number(at->id) != leaving_;
      const bool survives = holds && stays;
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
bool SimulatedWorld::may_stall(std::span<const ServerNode> nodes) const {
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

void SimulatedWorld::crash_server(std::size_t process) {
  if (!nodes_of(process).front().is_up) {
    return start_server(process);
  }
  if (!would_lose(process)) {
    for (ServerNode& node : nodes_of(process)) {
      node.is_up = false;
    }
    note("server {} crashes", process);
    if (leaving_ == process) {
      leaving_.reset();
    }
    ++result_.crashes;
  }
}

/// Asks it to hand its shards over. One at a time: if all leave, nobody can take them.
void SimulatedWorld::begin_leave(std::size_t process) {
  if (leaving_ || !nodes_of(process).front().is_up || would_lose(process)) {
    return;
  }
  leaving_ = process;
  note("server {} leaves", process);
  for (const ServerNode& node : nodes_of(process)) {
    node.machine->leave();
  }
}

/// Restarts it once it has been released.
void SimulatedWorld::end_leave(std::size_t process) {
  const bool is_released = std::ranges::all_of(
      nodes_of(process), [](const ServerNode& node) { return node.machine->is_released(); });
  if (is_released && !(has_faults_ && would_lose(process))) {
    note("server {} has left and restarts", process);
    ++result_.leaves;
    leaving_.reset();
    start_server(process);
  }
}

/// All its nodes, or one whose thread is stuck.
void SimulatedWorld::pause_server(std::size_t process) {
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
void SimulatedWorld::cut_off(std::size_t process) {
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

/// All nodes get a core only now and then, for a while or until the run ends: leases may be shorter than the way to the
/// coordinator and back. Nothing may crash meanwhile, because live servers are given up.
void SimulatedWorld::starve() {
  if (!may_stall(servers_)) {
    return;
  }
  const bool stays = chance(0.2);
  starved_until_ = stays ? kForever : std::max(starved_until_, now_ + between(50'000, 400'000));
  note("nodes wait up to {} us for a core until {}", longest_wait_, starved_until_);
  ++result_.starvations;
}

void SimulatedWorld::inject_fault() {
  if (longest_wait_ > 0 && chance(0.15)) {
    return starve();
  }
  const std::int64_t kind = between(0, 99);
  const auto server =
      static_cast<std::size_t>(between(0, static_cast<std::int64_t>(processes_) - 1));
  const auto worker =
      static_cast<std::size_t>(between(0, static_cast<std::int64_t>(workers_.size()) - 1));
  if (kind < 30) {
    crash_server(server);
  } else if (kind < 35) {
    begin_leave(server);
  } else if (kind < 42) {
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

void SimulatedWorld::end_faults() {
  has_faults_ = false;
  slow_ = 0;
  for (std::size_t process = 0; process < processes_; ++process) {
    if (!nodes_of(process).front().is_up) {
      start_server(process);
    }
  }
}

}  // namespace trireme::ps
