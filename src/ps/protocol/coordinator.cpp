#include "ps/protocol/coordinator.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ps/protocol/bytes.h"
#include "ps/protocol/fault.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme::ps {
namespace {

constexpr std::uint32_t kMaxShards = 1U << 16;

std::string lease_mismatch(const std::string& who, Micros own, Micros coordinators) {
  constexpr double kSecondsPerMicro = 1e-6;
  return fmt::format(
      "{} has a lease of {}, the coordinator of {}: use the same --lease on all nodes", who,
      to_text(Seconds{kSecondsPerMicro * static_cast<double>(own)}),
      to_text(Seconds{kSecondsPerMicro * static_cast<double>(coordinators)}));
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
      last_tick_(now),
      origin_(options.origin),
      next_snapshot_(options.first_snapshot),
      round_begin_(now) {
  require_valid(options);
  if (!durable.empty() && !planted(Fault::ForgetViews)) {
    restore(durable, now);
  }
  clocks_.resize(tables_.size());
  announced_.resize(tables_.size());
  for (const auto& [id, worker] : workers_) {
    for (const auto& [table, registration] : worker.joined) {
      clocks_.at(table).rejoin(id, registration.start);
    }
  }
}

std::string Coordinator::durable() const {
  std::string bytes;
  ByteWriter io(bytes);
  io(version_, shards_.items(), table_entries());
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
  io(origin_);
  return bytes;
}

/// Leases that the former life granted may still be valid: all of them start anew.
void Coordinator::restore(std::string_view durable, Micros now) {
  ByteReader io(durable);
  std::vector<ShardRecord> shards;
  std::vector<TableEntry> tables;
  io(version_, shards, tables);
  shards_ = std::move(shards);
  tables_.clear();
  for (TableEntry& entry : tables) {
    tables_.push_back(std::move(entry.spec));
  }
  std::uint32_t count = 0;
  for (io(count); count > 0; --count) {
    NodeId id{};
    ServerRecord record;
    io(id, record);
    record.heard = awake_time(now);
    record.is_restored = true;
    servers_.emplace(id, std::move(record));
  }
  for (io(count); count > 0; --count) {
    NodeId id{};
    std::uint32_t joined = 0;
    io(id, joined);
    WorkerRecord& worker = workers_[id];
    worker.heard = awake_time(now);
    for (; joined > 0; --joined) {
      TableId table{};
      io(table);
      io(worker.joined[table]);
    }
  }
  io(origin_);
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
  } else if (const auto* written = std::get_if<SnapshotWritten>(&envelope.message);
             written && round_ && is_server(from)) {
    round_->take(*written);
  } else if (std::holds_alternative<GetState>(envelope.message)) {
    send(from, state_for(from), out);
  }
}

/// All nodes must agree on when a lease has ended.
std::string Coordinator::reason_to_refuse(NodeId from, const ServerBeat& beat) const {
  return beat.lease == options_.timing.lease
             ? ""
             : lease_mismatch(to_text(from), beat.lease, options_.timing.lease);
}

/// A former life that has ended is silent before a lease is over. One that is not silent after two is another process.
void Coordinator::meet_rival(NodeId server, ServerRecord& record, Incarnation incarnation,
                             Outbox& out) const {
  if (!record.rival || record.rival->incarnation != incarnation) {
    record.rival = Rival{incarnation, awake_, awake_};
  }
  record.rival->heard = awake_;
  if (awake_ - record.rival->since > 2 * patience()) {
    send(server,
         Refusal{to_text(server),
                 fmt::format("{} is already running at {}: give each server its own --number",
                             to_text(server), record.address)},
         out);
  }
}

// A restarted server has to wait until the lease of its former life has ended: that life might only be paused. Unless it
// was released: it had no shards then, and got none since.
void Coordinator::take(NodeId from, const ServerBeat& beat, Micros now, Outbox& out) {
  if (const std::string reason = reason_to_refuse(from, beat); !reason.empty()) {
    return send(from, Refusal{to_text(from), reason}, out);
  }
  const auto [at, is_new] = servers_.try_emplace(from);
  ServerRecord& record = at->second;
  const bool is_other =
      record.incarnation != beat.incarnation && !planted(Fault::IgnoreIncarnation);
  if (!is_new && is_other && record.is_alive && !record.is_released) {
    return meet_rival(from, record, beat.incarnation, out);
  }
  if (record.rival && record.rival->incarnation == beat.incarnation) {
    record.rival.reset();
  }
  if (is_new || is_other || record.address != beat.address) {
    record.incarnation = beat.incarnation;
    record.address = beat.address;
    ++version_;
  }
  record.heard = awake_time(now);
  record.reactors = beat.reactors;
  record.is_leaving = beat.leaving;
  record.is_alive = true;
  record.is_restored = false;
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
    record.is_released = beat.leaving && may_stop(from);
    send(from, ServerBeatDone{beat.incarnation, beat.sent, record.is_released}, out);
  }
}

bool Coordinator::is_idle(NodeId node) const {
  return std::ranges::none_of(shards_, [&](const ShardRecord& record) {
    const auto& [learner, deposed] = std::tie(record.view.learner, record.deposed);
    return record.view.has_member(node) || (learner && learner->server == node) ||
           (deposed && deposed->server == node);
  });
}

bool Coordinator::may_stop(NodeId node) const {
  const bool has_successor =
      std::ranges::any_of(servers_, [](const auto& entry) { return !entry.second.is_leaving; });
  return is_idle(node) || !has_successor;
}

// A server that was removed from a chain and has not noticed could answer pulls from old values. One that is still a
// member cannot: it is the tail, or pushes only get to the tail through it.
bool Coordinator::may_have_lease(NodeId server, const ServerRecord& record) const {
  return std::ranges::all_of(record.statuses, [&](const auto& entry) {
    const auto& [shard, status] = entry;
    return !shards_.contains(shard) || status.epoch >= shards_[shard].view.epoch ||
           shards_[shard].view.has_member(server);
  });
}

ServerCondition Coordinator::condition_of(const ServerRecord& server) {
  if (server.is_released) {
    return ServerCondition::Left;
  }
  if (!server.is_alive) {
    return ServerCondition::Silent;
  }
  return server.is_leaving ? ServerCondition::Leaving : ServerCondition::Alive;
}

std::vector<ServerAddress> Coordinator::addresses() const {
  std::vector<ServerAddress> addresses;
  for (const auto& [id, server] : servers_) {
    addresses.push_back({id, server.address, condition_of(server)});
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
                     .servers = addresses(),
                     .origin = origin_,
                     .stuck = stuck_shards()};
  const auto server = servers_.find(node);
  for (const ShardId shard : shards_.ids()) {
    const View& view = shards_[shard].view;
    const std::optional<Member>& deposed = shards_[shard].deposed;
    bool is_wanted = view.epoch > 0 && (!deposed || deposed->server == node);
    if (server != servers_.end()) {
      const auto status = server->second.statuses.find(shard);
      const bool has_any = status != server->second.statuses.end();
      const bool concerns =
          has_any || view.has_member(node) || (view.learner && view.learner->server == node);
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
  clocks_.push_back({});
  announced_.push_back({});
  ++version_;
  for (const auto& [id, server] : servers_) {
    send(id, state_for(id), out);
  }
  send(from, state_for(from), out);
}

void Coordinator::take(NodeId from, const MoveShard& request, Outbox& out) {
  const bool is_valid = shards_.contains(request.shard) &&
                        std::ranges::all_of(request.servers, [&](std::uint64_t server) {
                          return std::ranges::any_of(servers_, [&](const auto& entry) {
                            return server_number(entry.first) == server;
                          });
                        });
  if (!is_valid) {
    return send(from, Refusal{"move", "the shard or a server does not exist"}, out);
  }
  shards_[request.shard].pinned = request.servers;
  ++version_;
}

// --- Workers and their clocks.

void Coordinator::take(NodeId from, const WorkerBeat& beat, Micros now, Outbox& out) {
  if (beat.leaving) {
    return remove_worker(from, out);
  }
  if (!beat.clocks.empty() && beat.lease != options_.timing.lease) {
    const std::string reason = lease_mismatch("this worker", beat.lease, options_.timing.lease);
    return send(from, Refusal{kLeaseSubject, reason}, out);
  }
  const auto [at, is_new] = workers_.try_emplace(from);
  WorkerRecord& worker = at->second;
  worker.heard = awake_time(now);
  if (is_new) {
    ++version_;
  }
  for (const TableClock& entry : beat.clocks) {
    if (!clocks_.contains(entry.table)) {
      continue;
    }
    ClockTable& clocks = clocks_[entry.table];
    if (clocks.has(from)) {
      clocks.advance(from, entry.clock);
    } else if (clocks.can_join()) {
      worker.joined[entry.table] = {clocks.join(from, entry.clock), ++version_};
    }
    send_slowest(entry.table, out);
  }
  send(from, slowest_for(worker, beat.sent), out);
}

SlowestClocks Coordinator::slowest_for(const WorkerRecord& worker, Micros sent) const {
  SlowestClocks message{.sent = sent};
  for (const auto& [table, registration] : worker.joined) {
    if (const auto slowest = clocks_[table].slowest()) {
      message.slowest.push_back({table, *slowest, registration.number});
    }
  }
  return message;
}

/// To all workers of the table, if it has changed.
void Coordinator::send_slowest(TableId table, Outbox& out) {
  const std::optional<ClockCount> slowest = clocks_[table].slowest();
  if (!slowest || slowest == std::exchange(announced_[table], slowest)) {
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
    clocks_[table].leave(worker);
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

}  // namespace trireme::ps
