#include "ps/protocol/coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ps/protocol/bytes.h"
#include "ps/protocol/fault.h"
#include "ps/protocol/ring.h"
#include "trireme/valid.h"

namespace trireme::ps {
namespace {

constexpr std::uint32_t kMaxShards = 1U << 16;

bool has_server(const std::vector<Member>& chain, NodeId server) {
  return std::ranges::find(chain, server, &Member::server) != chain.end();
}

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}

}  // namespace

std::vector<std::string> problems(const CoordinatorOptions& options) {
  std::vector<std::string> found;
  if (options.shards == 0 || options.shards > kMaxShards) {
    found.push_back(
        fmt::format("{} shards are out of range: use 1 to {}", options.shards, kMaxShards));
  }
  if (options.replicas == 0 || options.replicas > 8) {
    found.push_back(fmt::format("{} replicas are out of range: use 1 to 8", options.replicas));
  }
  return found;
}

Coordinator::Coordinator(const CoordinatorOptions& options, const UpdateRegistry& updates,
                         Micros now, std::string_view durable)
    : options_(options),
      updates_(updates),
      shards_(options.shards),
      tables_(options.tables),
      last_tick_(now) {
  require_valid(options);
  if (!durable.empty() && !planted(Fault::ForgetViews)) {
    restore(durable, now);
  }
  clocks_.resize(tables_.size());
  announced_.resize(tables_.size());
  for (const auto& [id, worker] : workers_) {
    for (const auto& [table, registration] : worker.joined) {
      clocks_.at(static_cast<std::size_t>(table)).rejoin(id, registration.start);
    }
  }
}

std::string Coordinator::durable() const {
  std::string bytes;
  ByteWriter io(bytes);
  io(version_, shards_, table_entries());
  io(static_cast<std::uint32_t>(servers_.size()));
  for (const auto& [id, server] : servers_) {
    io(id, server);
  }
  io(static_cast<std::uint32_t>(workers_.size()));
  for (const auto& [id, worker] : workers_) {
    io(id, static_cast<std::uint32_t>(worker.joined.size()));
    for (const auto& [table, registration] : worker.joined) {
      io(table, registration);
    }
  }
  return bytes;
}

/// Leases that the former life granted may still be valid: all of them start anew.
void Coordinator::restore(std::string_view durable, Micros now) {
  ByteReader io(durable);
  std::vector<TableEntry> tables;
  io(version_, shards_, tables);
  tables_.clear();
  for (TableEntry& entry : tables) {
    tables_.push_back(std::move(entry.spec));
  }
  std::uint32_t count = 0;
  for (io(count); count > 0; --count) {
    NodeId id{};
    ServerRecord record;
    io(id, record);
    record.heard = now;
    servers_.emplace(id, std::move(record));
  }
  for (io(count); count > 0; --count) {
    NodeId id{};
    std::uint32_t joined = 0;
    io(id, joined);
    WorkerRecord& worker = workers_[id];
    worker.heard = now;
    for (; joined > 0; --joined) {
      TableId table{};
      io(table);
      io(worker.joined[table]);
    }
  }
  io.finish();
}

void Coordinator::send(NodeId to, Message message, Outbox& out) const {
  out.push_back({NodeId::Coordinator, to, std::move(message)});
}

void Coordinator::handle(const Envelope& envelope, Micros now, Outbox& out) {
  const NodeId from = envelope.from;
  if (const auto* server = std::get_if<ServerBeat>(&envelope.message); server && is_server(from)) {
    take(from, *server, now, out);
  } else if (const auto* worker = std::get_if<WorkerBeat>(&envelope.message);
             worker && is_worker(from)) {
    take(from, *worker, now, out);
  } else if (const auto* create = std::get_if<CreateTable>(&envelope.message)) {
    take(from, *create, out);
  } else if (const auto* move = std::get_if<MoveShard>(&envelope.message)) {
    take(from, *move, out);
  } else if (std::holds_alternative<GetState>(envelope.message)) {
    send(from, state_for(from), out);
  }
}

// A restarted server has to wait until the lease of its former life has ended: that life might only be paused.
void Coordinator::take(NodeId from, const ServerBeat& beat, Micros now, Outbox& out) {
  const auto [at, is_new] = servers_.try_emplace(from);
  ServerRecord& record = at->second;
  const bool is_other =
      record.incarnation != beat.incarnation && !planted(Fault::IgnoreIncarnation);
  record.has_restarted = !is_new && is_other && record.is_alive;
  if (record.has_restarted) {
    return;
  }
  if (is_new || is_other || record.address != beat.address) {
    record.incarnation = beat.incarnation;
    record.address = beat.address;
    ++version_;
  }
  record.heard = now;
  record.is_alive = true;
  record.statuses.clear();
  for (const ShardStatus& status : beat.shards) {
    record.statuses[status.shard] = status;
  }
  ClusterState state = state_for(from);
  const bool knows_tables = beat.tables >= tables_.size();
  if (!state.views.empty() || !knows_tables) {
    send(from, std::move(state), out);
  }
  if (may_have_lease(from, record)) {
    send(from, ServerBeatDone{beat.incarnation, beat.sent}, out);
  }
}

// A server that was removed from a chain and has not noticed could answer pulls from old values. One that is still a
// member cannot: it is the tail, or pushes only get to the tail through it.
bool Coordinator::may_have_lease(NodeId server, const ServerRecord& record) const {
  return std::ranges::all_of(record.statuses, [&](const auto& entry) {
    const auto number = static_cast<std::size_t>(entry.first);
    return number >= shards_.size() || entry.second.epoch >= shards_[number].view.epoch ||
           has_server(shards_[number].view.chain, server);
  });
}

std::vector<ServerAddress> Coordinator::addresses() const {
  std::vector<ServerAddress> addresses;
  for (const auto& [id, server] : servers_) {
    addresses.push_back({id, server.address});
  }
  return addresses;
}

std::vector<TableEntry> Coordinator::table_entries() const {
  std::vector<TableEntry> entries;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    entries.push_back({static_cast<TableId>(i), tables_[i]});
  }
  return entries;
}

/// Workers get everything; a server gets the views that concern it and are new to it.
ClusterState Coordinator::state_for(NodeId node) const {
  ClusterState state{.shard_count = static_cast<std::uint32_t>(shards_.size()),
                     .is_healthy = is_healthy(),
                     .views = {},
                     .tables = table_entries(),
                     .servers = addresses()};
  const auto server = servers_.find(node);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto shard = static_cast<ShardId>(i);
    const View& view = shards_[i].view;
    const std::optional<Member>& deposed = shards_[i].deposed;
    bool is_wanted = view.epoch > 0 && (!deposed || deposed->server == node);
    if (server != servers_.end()) {
      const auto status = server->second.statuses.find(shard);
      const bool has_any = status != server->second.statuses.end();
      const bool concerns =
          has_any || has_server(view.chain, node) || (view.learner && view.learner->server == node);
      is_wanted = is_wanted && concerns && (!has_any || status->second.epoch < view.epoch);
    }
    if (is_wanted) {
      state.views.push_back({shard, view});
    }
  }
  return state;
}

void Coordinator::take(NodeId from, const CreateTable& request, Outbox& out) {
  const auto same = std::ranges::find(tables_, request.spec.name, &TableSpec::name);
  if (same != tables_.end()) {
    if (*same == request.spec) {
      return send(from, state_for(from), out);
    }
    return send(from,
                Refusal{request.spec.name,
                        fmt::format("table '{}' exists with other settings", request.spec.name)},
                out);
  }
  try {
    require_valid(request.spec);
    (void)updates_.make(request.spec.update, request.spec.parameters);
  } catch (const Error& error) {
    return send(from, Refusal{request.spec.name, error.what()}, out);
  }
  tables_.push_back(request.spec);
  clocks_.emplace_back();
  announced_.emplace_back();
  ++version_;
  for (const auto& [id, server] : servers_) {
    send(id, state_for(id), out);
  }
  send(from, state_for(from), out);
}

void Coordinator::take(NodeId from, const MoveShard& request, Outbox& out) {
  const auto number = static_cast<std::size_t>(request.shard);
  const bool is_valid =
      number < shards_.size() &&
      std::ranges::all_of(request.servers, [&](NodeId id) { return servers_.contains(id); });
  if (!is_valid) {
    return send(from, Refusal{"move", "the shard or a server does not exist"}, out);
  }
  shards_[number].pinned = request.servers;
  ++version_;
}

// --- Workers and their clocks.

void Coordinator::take(NodeId from, const WorkerBeat& beat, Micros now, Outbox& out) {
  if (beat.leaving) {
    return remove_worker(from, out);
  }
  const auto [at, is_new] = workers_.try_emplace(from);
  WorkerRecord& worker = at->second;
  worker.heard = now;
  if (is_new) {
    ++version_;
  }
  for (const TableClock& entry : beat.clocks) {
    const auto number = static_cast<std::size_t>(entry.table);
    if (number >= clocks_.size()) {
      continue;
    }
    if (clocks_[number].has(from)) {
      clocks_[number].advance(from, entry.clock);
    } else if (clocks_[number].can_join()) {
      worker.joined[entry.table] = {clocks_[number].join(from, entry.clock), ++version_};
    }
    send_slowest(entry.table, out);
  }
  send(from, slowest_for(worker, beat.sent), out);
}

SlowestClocks Coordinator::slowest_for(const WorkerRecord& worker, Micros sent) const {
  SlowestClocks message{.sent = sent};
  for (const auto& [table, registration] : worker.joined) {
    if (const auto slowest = clocks_[static_cast<std::size_t>(table)].slowest()) {
      message.slowest.push_back({table, *slowest, registration.number});
    }
  }
  return message;
}

/// To all workers of the table, if it has changed.
void Coordinator::send_slowest(TableId table, Outbox& out) {
  const auto number = static_cast<std::size_t>(table);
  const std::optional<ClockCount> slowest = clocks_[number].slowest();
  if (!slowest || slowest == std::exchange(announced_[number], slowest)) {
    return;
  }
  for (const auto& [id, worker] : workers_) {
    if (const auto at = worker.joined.find(table); at != worker.joined.end()) {
      send(id, SlowestClocks{.slowest = {{table, *slowest, at->second.number}}}, out);
    }
  }
}

void Coordinator::remove_worker(NodeId worker, Outbox& out) {
  const auto at = workers_.find(worker);
  if (at == workers_.end()) {
    return;
  }
  const std::map<TableId, Registration> joined = std::move(at->second.joined);
  workers_.erase(at);
  ++version_;
  for (const auto& [table, registration] : joined) {
    clocks_[static_cast<std::size_t>(table)].leave(worker);
    send_slowest(table, out);
  }
}

std::optional<ClockCount> Coordinator::joined_at(TableId table, NodeId worker) const {
  const auto at = workers_.find(worker);
  if (at == workers_.end() || !at->second.joined.contains(table)) {
    return std::nullopt;
  }
  return at->second.joined.at(table).start;
}

// --- Servers and views.

bool Coordinator::is_alive(const Member& member) const {
  const auto at = servers_.find(member.server);
  return at != servers_.end() && at->second.is_alive &&
         (at->second.incarnation == member.incarnation || planted(Fault::IgnoreIncarnation));
}

std::vector<NodeId> Coordinator::live_servers() const {
  std::vector<NodeId> live;
  for (const auto& [id, server] : servers_) {
    if (server.is_alive) {
      live.push_back(id);
    }
  }
  return live;
}

/// What the member has reported in the shard's current epoch.
const ShardStatus* Coordinator::status_of(const Member& member, ShardId shard) const {
  const auto at = servers_.find(member.server);
  if (at == servers_.end() || at->second.incarnation != member.incarnation) {
    return nullptr;
  }
  const auto status = at->second.statuses.find(shard);
  const Epoch epoch = shards_[static_cast<std::size_t>(shard)].view.epoch;
  const bool is_current = status != at->second.statuses.end() && status->second.epoch == epoch;
  return is_current ? &status->second : nullptr;
}

bool Coordinator::is_healthy() const {
  const std::size_t wanted = std::min(options_.replicas, live_servers().size());
  const bool is_calm =
      std::ranges::none_of(servers_, [](const auto& entry) { return entry.second.has_restarted; });
  return is_calm && std::ranges::all_of(shards_, [&](const ShardRecord& record) {
           return record.view.epoch > 0 && record.view.chain.size() >= wanted &&
                  record.is_tail_synced && !record.deposed && !record.view.learner &&
                  std::ranges::all_of(record.view.chain,
                                      [&](const Member& member) { return is_alive(member); });
         });
}

void Coordinator::tick(Micros now, Outbox& out) {
  if (now - std::exchange(last_tick_, now) > options_.timing.lease / 2) {
    renew_all(now);  // this process was paused: heartbeats may wait to be read
  }
  expire(now, out);
  if (!shards_.empty() && shards_[0].view.epoch == 0) {
    return assign_all(out);
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    reconfigure(static_cast<ShardId>(i), out);
  }
}

void Coordinator::renew_all(Micros now) {
  for (auto& [id, server] : servers_) {
    server.heard = server.is_alive ? now - options_.timing.lease / 2 : server.heard;
  }
  for (auto& [id, worker] : workers_) {
    worker.heard = now;
  }
}

void Coordinator::expire(Micros now, Outbox& out) {
  const Micros patience = planted(Fault::ExpireEarly)
                              ? options_.timing.heartbeat + options_.timing.lease_margin
                              : options_.timing.lease + options_.timing.lease_margin;
  for (auto& [id, server] : servers_) {
    server.is_alive = server.is_alive && now - server.heard < patience;
  }
  std::vector<NodeId> late;
  for (const auto& [id, worker] : workers_) {
    if (now - worker.heard >= patience) {
      late.push_back(id);
    }
  }
  for (const NodeId worker : late) {
    remove_worker(worker, out);
  }
}

/// The first views of a new cluster, in which all members start empty.
void Coordinator::assign_all(Outbox& out) {
  const std::vector<NodeId> live = live_servers();
  if (live.size() < std::max<std::size_t>(options_.min_servers, 1)) {
    return;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto shard = static_cast<ShardId>(i);
    View& view = shards_[i].view;
    view.epoch = 1;
    for (const NodeId server : target(shard, shards_[i])) {
      view.chain.push_back({server, servers_.at(server).incarnation});
    }
    announce(shard, {}, out);
  }
  ++version_;
}

void Coordinator::reconfigure(ShardId shard, Outbox& out) {
  ShardRecord& record = shards_[static_cast<std::size_t>(shard)];
  const View before = record.view;
  note_progress(shard, record);
  if (record.deposed) {
    return;  // one change at a time
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

/// Pinned servers that are alive, then those of the ring.
std::vector<NodeId> Coordinator::target(ShardId shard, const ShardRecord& record) const {
  const std::vector<NodeId> live = live_servers();
  std::vector<NodeId> wanted;
  for (const std::vector<NodeId>& source : {record.pinned, Ring(live).chain(shard, live.size())}) {
    for (const NodeId server : source) {
      if (wanted.size() < options_.replicas && contains(live, server) &&
          !contains(wanted, server)) {
        wanted.push_back(server);
      }
    }
  }
  return wanted;
}

/// Whether the server may receive the shard's state now.
bool Coordinator::may_learn(NodeId server, const ShardRecord& record) const {
  const auto transfers = std::ranges::count_if(
      shards_, [](const ShardRecord& other) { return other.view.learner.has_value(); });
  return !has_server(record.view.chain, server) &&
         static_cast<std::size_t>(transfers) < options_.max_transfers;
}

bool Coordinator::move_towards_target(ShardId shard, ShardRecord& record) const {
  View& view = record.view;
  // Only while all members have just been heard: one that died since its last heartbeat does not hold the shard.
  const auto is_fresh = [&](const Member& member) {
    return is_alive(member) &&
           last_tick_ - servers_.at(member.server).heard <= 2 * options_.timing.heartbeat;
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
  const auto surplus = std::ranges::find_if(
      view.chain, [&](const Member& member) { return !contains(wanted, member.server); });
  if (view.chain.size() <= wanted.size() || surplus == view.chain.end()) {
    return false;
  }
  if (surplus + 1 == view.chain.end()) {
    record.deposed = *surplus;
  }
  view.chain.erase(surplus);
  return true;
}

void Coordinator::announce(ShardId shard, const View& before, Outbox& out) {
  const ShardRecord& record = shards_[static_cast<std::size_t>(shard)];
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
                           .servers = addresses()};
  for (const NodeId node : affected) {
    if (!record.deposed || record.deposed->server == node) {
      send(node, state, out);
    }
  }
}

}  // namespace trireme::ps
