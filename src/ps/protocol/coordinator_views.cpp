// The coordinator's decisions: which servers are alive, and who holds which shard.
#include <algorithm>
#include <span>
#include <utility>

#include "ps/protocol/coordinator.h"
#include "ps/protocol/fault.h"

namespace trireme::ps {
namespace {

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}

}  // namespace

bool Coordinator::is_alive(const Member& member) const {
  const auto at = servers_.find(member.server);
  return at != servers_.end() && at->second.is_alive &&
         (at->second.incarnation == member.incarnation || planted(Fault::IgnoreIncarnation));
}

std::size_t Coordinator::live_servers() const {
  std::set<std::uint64_t> live;
  for (const auto& [id, server] : servers_) {
    if (server.is_alive && !server.is_leaving) {
      live.insert(server_number(id));
    }
  }
  return live.size();
}

/// What the member has reported in the shard's current epoch.
const ShardStatus* Coordinator::status_of(const Member& member, ShardId shard) const {
  const auto at = servers_.find(member.server);
  if (at == servers_.end() || at->second.incarnation != member.incarnation) {
    return nullptr;
  }
  const auto status = at->second.statuses.find(shard);
  const Epoch epoch = shards_[shard].view.epoch;
  const bool is_current = status != at->second.statuses.end() && status->second.epoch == epoch;
  return is_current ? &status->second : nullptr;
}

bool Coordinator::is_healthy() const {
  const std::size_t wanted = std::min(options_.replicas, live_servers());
  const bool is_calm = std::ranges::none_of(
      servers_, [](const auto& entry) { return entry.second.rival.has_value(); });
  return is_calm && std::ranges::all_of(shards_, [&](const ShardRecord& record) {
           return record.view.epoch > 0 && record.view.processes() >= wanted &&
                  record.is_tail_synced && !record.deposed && !record.view.learner &&
                  std::ranges::all_of(record.view.chain,
                                      [&](const Member& member) { return is_alive(member); });
         });
}

void Coordinator::tick(Micros now, Outbox& out) {
  awake_ = awake_time(now);
  last_tick_ = now;
  expire(out);
  update_ring();
  if (!shards_.empty() && shards_.front().view.epoch == 0) {
    return assign_all(out);
  }
  for (const ShardId shard : shards_.ids()) {
    reconfigure(shard, out);
  }
  advance_snapshot(now, out);
}

// Heartbeats wait to be read while this process is paused, so the pause must not count as silence. But a part of it must:
// on a busy machine every tick may be late, and a dead server has to be noticed then, too.
Micros Coordinator::awake_time(Micros now) const {
  return awake_ + std::min(now - last_tick_, options_.timing.lease / 4);
}

Micros Coordinator::patience() const {
  const Timing& timing = options_.timing;
  return (planted(Fault::ExpireEarly) ? timing.heartbeat : timing.lease) + timing.lease_margin;
}

void Coordinator::expire(Outbox& out) {
  for (auto& [id, server] : servers_) {
    server.is_alive = server.is_alive && awake_ - server.heard < patience();
    if (server.rival && awake_ - server.rival->heard >= patience()) {
      server.rival.reset();
    }
  }
  forget_left();
  std::vector<NodeId> late;
  for (const auto& [id, worker] : workers_) {
    if (awake_ - worker.heard >= patience()) {
      late.push_back(id);
    }
  }
  for (const NodeId worker : late) {
    remove_worker(worker, out);
  }
}

/// Servers that have handed over and are silent. A former life of the coordinator may have let them go, too.
void Coordinator::forget_left() {
  const std::size_t forgotten = std::erase_if(servers_, [&](const auto& entry) {
    const auto& [id, server] = entry;
    const bool has_left = server.is_released || server.is_restored;
    return !server.is_alive && has_left && is_idle(id);
  });
  version_ += forgotten > 0 ? 1 : 0;
}

/// Building it takes much longer than using it.
void Coordinator::update_ring() {
  std::vector<NodeId> live;
  for (const auto& [id, server] : servers_) {
    if (server.is_alive && !server.is_leaving) {
      live.push_back(id);
    }
  }
  if (live != ring_nodes_) {
    ring_ = Ring(live, {.shards = static_cast<std::uint32_t>(shards_.size()),
                        .replicas = options_.replicas});
    ring_nodes_ = std::move(live);
  }
}

/// Enough of them, each with all its reactors: otherwise shards would move to the later ones at once.
bool Coordinator::have_servers_joined() const {
  std::map<std::uint64_t, std::int64_t> missing;  // reactors by server
  for (const NodeId node : ring_nodes_) {
    const auto at = missing.try_emplace(server_number(node), servers_.at(node).reactors).first;
    --at->second;
  }
  return missing.size() >= std::max<std::size_t>(options_.min_servers, 1) &&
         std::ranges::all_of(missing, [](const auto& entry) { return entry.second <= 0; });
}

/// The first views of a new cluster, in which all members start empty.
void Coordinator::assign_all(Outbox& out) {
  if (!have_servers_joined()) {
    return;
  }
  for (const ShardId shard : shards_.ids()) {
    View& view = shards_[shard].view;
    view.epoch = options_.first_epoch;
    for (const NodeId server : target(shard, shards_[shard])) {
      view.chain.push_back({server, servers_.at(server).incarnation});
    }
    announce(shard, {}, out);
  }
  ++version_;
}

void Coordinator::reconfigure(ShardId shard, Outbox& out) {
  ShardRecord& record = shards_[shard];
  const View before = record.view;
  const bool was_withheld = record.deposed.has_value();
  note_progress(shard, record);
  if (record.deposed) {
    return;  // one change at a time
  }
  if (was_withheld) {
    announce(shard, before, out);  // pushes stand still until the others know it
  }
  const bool has_changed =
      drop_dead(record) || admit_learner(shard, record) || move_towards_target(shard, record);
  if (has_changed) {
    record.view.epoch += planted(Fault::ReuseEpoch) ? 0 : 1;
    ++version_;
    announce(shard, before, out);
  }
}

void Coordinator::note_progress(ShardId shard, ShardRecord& record) {
  const ShardStatus* const tail = status_of(record.view.chain.back(), shard);
  if (!record.is_tail_synced && tail && tail->progress == Progress::Synced) {
    record.is_tail_synced = true;
    ++version_;
  }
  if (record.deposed && (status_of(*record.deposed, shard) || !is_alive(*record.deposed))) {
    record.deposed.reset();
    ++version_;
  }
}

/// Never removes the last member that has everything that was acknowledged: the shard waits for it instead.
bool Coordinator::drop_dead(ShardRecord& record) const {
  View& view = record.view;
  std::vector<Member> alive;
  bool has_synced = planted(Fault::DropLastSynced);
  for (std::size_t i = 0; i < view.chain.size(); ++i) {
    if (is_alive(view.chain[i])) {
      alive.push_back(view.chain[i]);
      has_synced = has_synced || i + 1 < view.chain.size() || record.is_tail_synced;
    }
  }
  bool has_changed = false;
  if (alive.size() < view.chain.size() && has_synced && !alive.empty()) {
    record.is_tail_synced = record.is_tail_synced || alive.back() != view.chain.back();
    view.chain = std::move(alive);
    has_changed = true;
  }
  if (view.learner && !is_alive(*view.learner)) {
    view.learner.reset();
    has_changed = true;
  }
  return has_changed;
}

/// Those whose chain drop_dead() cannot shorten.
std::vector<StuckShard> Coordinator::stuck_shards() const {
  std::vector<StuckShard> stuck;
  for (const ShardId id : shards_.ids()) {
    const std::vector<Member>& chain = shards_[id].view.chain;
    const std::size_t synced = chain.size() - (shards_[id].is_tail_synced || chain.empty() ? 0 : 1);
    const std::span<const Member> complete = std::span(chain).first(synced);
    const auto is_live = [&](const Member& member) { return is_alive(member); };
    if (complete.empty() || std::ranges::any_of(complete, is_live)) {
      continue;
    }
    StuckShard shard{.shard = id, .servers = {}, .is_lost = true};
    for (const Member& member : complete) {
      const auto at = servers_.find(member.server);
      shard.servers.push_back(member.server);
      shard.is_lost =
          shard.is_lost && at != servers_.end() && at->second.incarnation != member.incarnation;
    }
    stuck.push_back(std::move(shard));
  }
  return stuck;
}

bool Coordinator::admit_learner(ShardId shard, ShardRecord& record) const {
  if (!record.view.learner || !record.is_tail_synced) {
    return false;
  }
  const ShardStatus* const status = status_of(*record.view.learner, shard);
  if (!status || status->progress != Progress::CaughtUp) {
    return false;
  }
  record.view.chain.push_back(*record.view.learner);
  record.view.learner.reset();
  record.is_tail_synced = false;
  return true;
}

/// Nodes of pinned servers that are alive, then those of the ring.
std::vector<NodeId> Coordinator::target(ShardId shard, const ShardRecord& record) const {
  std::vector<NodeId> preferred;
  for (const std::uint64_t server : record.pinned) {
    if (const std::optional<NodeId> node = ring_.node_of(server, shard)) {
      preferred.push_back(*node);
    }
  }
  const std::vector<NodeId> others = ring_.chain(shard, options_.replicas + preferred.size());
  preferred.insert(preferred.end(), others.begin(), others.end());
  std::vector<NodeId> wanted;
  for (const NodeId node : preferred) {
    if (wanted.size() < options_.replicas && !shares_process(wanted, node)) {
      wanted.push_back(node);
    }
  }
  return wanted;
}

/// Whether the server may receive the shard's state now.
bool Coordinator::may_learn(NodeId server, const ShardRecord& record) const {
  const auto transfers = std::ranges::count_if(
      shards_, [](const ShardRecord& other) { return other.view.learner.has_value(); });
  return !record.view.has_member(server) && std::cmp_less(transfers, options_.max_transfers);
}

bool Coordinator::move_towards_target(ShardId shard, ShardRecord& record) const {
  View& view = record.view;
  // Only while all members have just been heard: one that died since its last heartbeat does not hold the shard.
  const auto is_fresh = [&](const Member& member) {
    return is_alive(member) &&
           awake_ - servers_.at(member.server).heard <= 2 * options_.timing.heartbeat;
  };
  const bool is_calm =
      record.is_tail_synced && !view.learner && std::ranges::all_of(view.chain, is_fresh);
  if (!is_calm) {
    return false;
  }
  const std::vector<NodeId> wanted = target(shard, record);
  for (const NodeId server : wanted) {
    if (may_learn(server, record)) {
      view.learner = Member{server, servers_.at(server).incarnation};
      return true;
    }
  }
  // Two members may be of one process until one of them is removed; the others must be of enough processes.
  const auto is_surplus = [&](const Member& member) {
    View rest = view;
    std::erase(rest.chain, member);
    return !contains(wanted, member.server) && rest.processes() >= wanted.size();
  };
  const auto surplus = std::ranges::find_if(view.chain, is_surplus);
  const bool has_surplus = view.chain.size() > std::max<std::size_t>(wanted.size(), 1);
  if (!has_surplus || surplus == view.chain.end()) {
    return false;
  }
  if (surplus + 1 == view.chain.end()) {
    record.deposed = *surplus;
  }
  view.chain.erase(surplus);
  return true;
}

void Coordinator::announce(ShardId shard, const View& before, Outbox& out) {
  const ShardRecord& record = shards_[shard];
  std::set<NodeId> affected;
  for (const View* view : {&before, &record.view}) {
    for (const Member& member : view->chain) {
      affected.insert(member.server);
    }
    if (view->learner) {
      affected.insert(view->learner->server);
    }
  }
  for (const auto& [id, worker] : workers_) {
    affected.insert(id);
  }
  const ClusterState state{.shard_count = static_cast<std::uint32_t>(shards_.size()),
                           .is_healthy = false,
                           .views = {{shard, record.view}},
                           .tables = table_entries(),
                           .servers = addresses(),
                           .origin = origin_};
  for (const NodeId node : affected) {
    if (!record.deposed || record.deposed->server == node) {
      send(node, state, out);
    }
  }
}

}  // namespace trireme::ps
