// What strikes the processes.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ps/tools/chaos_run.h"

namespace trireme::ps {
namespace {

/// All of them, the kills of servers twice.
std::vector<ChaosAct> all_acts() {
  using enum ChaosAct;
  return {KillHead,         KillMiddle,     KillTail,
          KillHead,         KillMiddle,     KillTail,
          KillRejoining,    PauseRejoining, PauseHead,
          PauseMiddle,      PauseTail,      KillCoordinator,
          PauseCoordinator, KillWorker,     PauseWorker,
          Restart,          Move,           MoveAndKill,
          MoveAndKill,      MoveAndPause,   MoveAndKillCoordinator};
}

}  // namespace

void ChaosRun::count_kill(ChaosRole role) {
  ++result_.kills;
  ++result_.kills_by_role.at(static_cast<std::size_t>(role));
}

void ChaosRun::count_pause(ChaosRole role) {
  ++result_.pauses;
  ++result_.pauses_by_role.at(static_cast<std::size_t>(role));
}

/// A chain of two has no middle: its tail then.
ChaosRun::Victim ChaosRun::server_that_is(ChaosRole role) {
  const ClusterStatus status = observer_->status();
  const std::vector<ServerReactor>& chain = status.shards.at(below(status.shards.size())).chain;
  if (role == ChaosRole::Head) {
    return {chain.front().server, role};
  }
  if (role == ChaosRole::Middle && chain.size() > 2) {
    return {chain.at(1).server, role};
  }
  return {chain.back().server, ChaosRole::Tail};
}

void ChaosRun::begin_kill(std::size_t server) {
  Strike strike{.kind = Strike::Kind::KillServer};
  for (const ShardPlace& place : observer_->status().shards) {
    strike.touched.push_back(std::ranges::find(place.chain, server, &ServerReactor::server) !=
                             place.chain.end());
  }
  strike.time = micros_now();
  strikes_.push_back(std::move(strike));
}

void ChaosRun::kill(const Victim& victim) {
  note(fmt::format("kill server {}, a {}", victim.server, to_text(victim.role)));
  begin_kill(victim.server);
  servers_[victim.server]->kill();
  count_kill(victim.role);
  wait_up_to(200);
  start_server(victim.server);
}

/// As for a new version: it hands its shards over before it ends.
void ChaosRun::restart(const Victim& victim) {
  note(fmt::format("restart server {}, a {}", victim.server, to_text(victim.role)));
  begin_strike(Strike::Kind::Restart);
  servers_[victim.server]->terminate(kChaosRecovery);
  ++result_.restarts;
  start_server(victim.server);
}

/// Kills it again while it gets the state of its shards back.
void ChaosRun::kill_rejoining(const Victim& victim) {
  kill(victim);
  wait_for_learner(victim.server);
  kill(victim);
  ++result_.faults_in_rejoins;
}

void ChaosRun::pause_rejoining(const Victim& victim) {
  kill(victim);
  wait_for_learner(victim.server);
  pause(victim);
  ++result_.faults_in_rejoins;
}

void ChaosRun::pause(const Victim& victim) {
  note(fmt::format("pause server {}, a {}", victim.server, to_text(victim.role)));
  begin_strike(Strike::Kind::Other);
  servers_[victim.server]->pause();
  count_pause(victim.role);
  wait_up_to(600);
  servers_[victim.server]->resume();
}

void ChaosRun::kill_coordinator() {
  CoordinatorProcess& coordinator = coordinators_[below(coordinators_.size())];
  note(fmt::format("kill the coordinator at {}", coordinator.address));
  begin_strike(Strike::Kind::Other);
  coordinator.process->kill();
  count_kill(ChaosRole::Coordinator);
  wait_up_to(200);
  start_coordinator(coordinator);
}

void ChaosRun::pause_coordinator() {
  const CoordinatorProcess& coordinator = coordinators_[below(coordinators_.size())];
  note(fmt::format("pause the coordinator at {}", coordinator.address));
  begin_strike(Strike::Kind::Other);
  coordinator.process->pause();
  count_pause(ChaosRole::Coordinator);
  wait_up_to(300);
  coordinator.process->resume();
}

void ChaosRun::kill_worker() {
  const std::size_t i = below(workers_.size());
  note(fmt::format("kill worker {}", i));
  (*ledgers_.at(workers_[i].life - 1))->has_left_clock = true;
  workers_[i].process->kill();  // no strike of its own: it may happen while the cluster recovers
  count_kill(ChaosRole::Worker);
  start_worker(i);
}

void ChaosRun::pause_worker() {
  const std::size_t i = below(workers_.size());
  note(fmt::format("pause worker {}", i));
  (*ledgers_.at(workers_[i].life - 1))->has_left_clock = true;
  begin_strike(Strike::Kind::Other);
  workers_[i].process->pause();
  count_pause(ChaosRole::Worker);
  wait_up_to(600);
  workers_[i].process->resume();
}

/// To random servers.
void ChaosRun::move_shard() {
  std::vector<std::uint64_t> to(servers_.size());
  std::iota(to.begin(), to.end(), 0);
  std::ranges::shuffle(to, random_);
  to.resize(options_.replicas);
  const std::size_t shard = below(options_.shards);
  note(fmt::format("move shard {} to servers {}", shard, fmt::join(to, " ")));
  ++result_.moves;
  begin_strike(Strike::Kind::MoveShard);
  observer_->move_shard(shard, to);
}

/// A move during which somebody will be struck.
void ChaosRun::begin_move() {
  move_shard();
  wait_up_to(30);
  ++result_.faults_in_moves;
}

// NOLINTNEXTLINE(readability-function-size): a line for each kind
void ChaosRun::strike() {
  if (acts_.empty()) {
    acts_ = all_acts();
    std::ranges::shuffle(acts_, random_);
  }
  const ChaosAct act = acts_.back();
  acts_.pop_back();
  const auto any_role = [this] { return static_cast<ChaosRole>(below(3)); };
  switch (act) {
    case ChaosAct::KillHead:
      return kill(server_that_is(ChaosRole::Head));
    case ChaosAct::KillMiddle:
      return kill(server_that_is(ChaosRole::Middle));
    case ChaosAct::KillTail:
      return kill(server_that_is(ChaosRole::Tail));
    case ChaosAct::KillRejoining:
      return kill_rejoining(server_that_is(any_role()));
    case ChaosAct::PauseRejoining:
      return pause_rejoining(server_that_is(any_role()));
    case ChaosAct::PauseHead:
      return pause(server_that_is(ChaosRole::Head));
    case ChaosAct::PauseMiddle:
      return pause(server_that_is(ChaosRole::Middle));
    case ChaosAct::PauseTail:
      return pause(server_that_is(ChaosRole::Tail));
    case ChaosAct::KillCoordinator:
      return kill_coordinator();
    case ChaosAct::PauseCoordinator:
      return pause_coordinator();
    case ChaosAct::KillWorker:
      return kill_worker();
    case ChaosAct::PauseWorker:
      return pause_worker();
    case ChaosAct::Restart:
      return restart(server_that_is(any_role()));
    case ChaosAct::Move:
      return move_shard();
    case ChaosAct::MoveAndKill:
      begin_move();
      return kill(server_that_is(any_role()));
    case ChaosAct::MoveAndPause:
      begin_move();
      return pause(server_that_is(any_role()));
    case ChaosAct::MoveAndKillCoordinator:
      begin_move();
      return kill_coordinator();
  }
}

}  // namespace trireme::ps
