#include "ps/protocol/server.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "base/indexed_vector.h"
#include "ps/protocol/fault.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

constexpr Micros kLeavingBeat = 20'000;
/// Later than any: nothing is early.
constexpr Epoch kNoEpoch = std::numeric_limits<Epoch>::max();

void retain_values(Message& message) {
  std::visit(
      []<class M>(M& m) {
        if constexpr (std::is_same_v<M, PushDone> || std::is_same_v<M, PullDone>) {
          m.values.retain();
        }
      },
      message);
}

}  // namespace

Server::Server(ServerOptions options, const UpdateRegistry& updates)
    : options_(std::move(options)), updates_(updates) {}

Replica* Server::replica(ShardId shard) const {
  const auto at = replicas_.find(shard);
  return at == replicas_.end() ? nullptr : at->second.get();
}

/// This server does not hold the shard. The answer repeats the epoch of the worker's view, so that the worker knows which
/// view was refused.
void Server::refuse(const Envelope& envelope, Outbox& out) const {
  std::visit(
      [&]<class M>(const M& message) {
        if constexpr (std::is_same_v<M, Push> || std::is_same_v<M, Pull>) {
          const View nowhere{.epoch = message.epoch, .chain = {}, .learner = {}};
          out.push_back({options_.id, envelope.from, WrongView{message.shard, nowhere}});
        }
      },
      envelope.message);
}

void Server::handle(const Envelope& envelope, Micros now, Outbox& out) {
  if (!keep_if_early(envelope)) {
    dispatch(envelope, now, out);
  }
}

bool Server::keep_if_early(const Envelope& envelope) {
  if (const auto shard = EarlyMessages::early_shard(
          envelope, [&](ShardId of) { return known_epoch(of, envelope.from); })) {
    early_.keep(*shard, envelope);
    return true;
  }
  if (const auto shard = shard_without_table(envelope.message)) {
    tableless_.keep(*shard, envelope);
    return true;
  }
  return false;
}

/// Of a shard that this node does not hold it may never get a view: a worker is refused and asks the coordinator. Another
/// server knows that this node is to hold it.
Epoch Server::known_epoch(ShardId shard, NodeId sender) const {
  if (const Replica* const held = replica(shard)) {
    return held->view().epoch;
  }
  const auto seen = epochs_.find(shard);
  return !is_server(sender) ? kNoEpoch : seen == epochs_.end() ? 0 : seen->second;
}

/// Of an update or read of a table that this node does not know, or an update that must not overtake such a one.
std::optional<ShardId> Server::shard_without_table(const Message& message) const {
  const auto named = EarlyMessages::table_in(message);
  if (!named || replica(named->shard) == nullptr) {
    return std::nullopt;
  }
  const bool is_known = position_of(named->table) < tables_.size();
  const bool would_overtake =
      !std::holds_alternative<Pull>(message) && tableless_.has(named->shard);
  return is_known && !would_overtake ? std::nullopt : std::optional(named->shard);
}

/// After the shard's view or the tables have changed. Values in `out` must not be borrowed from a table that the next push
/// changes.
void Server::handle_early(EarlyMessages& kept, ShardId shard, Micros now, Outbox& out) {
  for (const Envelope& envelope : kept.take(shard)) {
    for (Envelope& outgoing : out) {
      retain_values(outgoing.message);
    }
    handle(envelope, now, out);
  }
}

// NOLINTNEXTLINE(readability-function-size): one line or two for each kind of message
void Server::dispatch(const Envelope& envelope, Micros now, Outbox& out) {
  const auto pass = [&](ShardId shard, const auto& handle) {
    if (Replica* const found = replica(shard)) {
      const Progress before = found->progress();
      handle(*found);
      has_news_ = has_news_ || found->progress() != before;
    } else if (is_worker(envelope.from)) {
      refuse(envelope, out);
    }
  };
  const NodeId from = envelope.from;
  const bool is_coordinator = from == NodeId::Coordinator;
  std::visit(
      [&]<class M>(const M& message) {
        if constexpr (std::is_same_v<M, Push>) {
          if (message.worker == from) {
            pass(message.shard, [&](Replica& r) { r.handle(message, now, out); });
          }
        } else if constexpr (std::is_same_v<M, Pull>) {
          if (message.worker == from) {
            has_news_ = has_news_ || !has_lease(now);
            pass(message.shard, [&](Replica& r) { r.handle(message, now, has_lease(now), out); });
          }
        } else if constexpr (std::is_same_v<M, Forward>) {
          pass(message.push.shard, [&](Replica& r) { r.handle(from, message, now, out); });
        } else if constexpr (std::is_same_v<M, Commit> || std::is_same_v<M, SnapshotOffer> ||
                             std::is_same_v<M, Chunk>) {
          pass(message.shard, [&](Replica& r) { r.handle(from, message, now, out); });
        } else if constexpr (std::is_same_v<M, Resume> || std::is_same_v<M, FetchChunk> ||
                             std::is_same_v<M, SyncPoint>) {
          pass(message.shard, [&](Replica& r) { r.handle(from, message, out); });
        } else if constexpr (std::is_same_v<M, ServerBeatDone>) {
          if (is_coordinator && message.incarnation == options_.incarnation) {
            take(message, now, out);
          }
        } else if constexpr (std::is_same_v<M, ClusterState>) {
          if (is_coordinator) {
            take(message, now, out);
          }
        } else if constexpr (std::is_same_v<M, Refusal>) {
          if (is_coordinator) {
            throw Error(ErrorKind::Usage, message.reason);
          }
        } else if constexpr (std::is_same_v<M, TakeSnapshot>) {
          if (is_coordinator) {
            take(message, out);
          }
        }
      },
      envelope.message);
}

void Server::take(const ClusterState& state, Micros now, Outbox& out) {
  const std::size_t known = tables_.size();
  for (const TableEntry& entry : state.tables) {
    add_table(entry);
  }
  addresses_.clear();
  for (const ServerAddress& server : state.servers) {
    addresses_[server.server] = server.address;
  }
  shard_count_ = state.shard_count;
  origin_ = state.origin;
  for (const ShardView& view : state.views) {
    adopt(view.shard, view.view, now, out);
  }
  if (tables_.size() > known) {
    for (const ShardId shard : tableless_.shards()) {
      handle_early(tableless_, shard, now, out);
    }
  }
}

/// After the heartbeat was sent, the coordinator had no view in which another server answers this one's pulls. While the
/// lease is valid it has none either. On a busy machine the answer may take longer than the lease.
void Server::take(const ServerBeatDone& done, Micros now, Outbox& out) {
  lease_end_ = std::max(lease_end_, done.sent + options_.timing.lease);
  is_released_ = is_leaving_ && done.released;
  for (const auto& [shard, held] : replicas_) {
    held->confirm(has_lease(now) ? now : done.sent, out);
  }
}

void Server::add_table(const TableEntry& entry) {
  if (position_of(entry.id) != tables_.size()) {
    return;  // known, or one before it is missing; heartbeats report how many are known
  }
  try {
    tables_.push_back({entry.spec, updates_.make(entry.spec.update, entry.spec.parameters)});
  } catch (const Error&) {
    // The coordinator has checked it against its own updates; this server was built without it and cannot serve.
  }
}

bool Server::belongs(const View& view) const {
  const Member self{options_.id, options_.incarnation};
  const auto is_self = [&](const Member& member) {
    return planted(Fault::IgnoreIncarnation) ? member.server == self.server : member == self;
  };
  return std::ranges::any_of(view.chain, is_self) || (view.learner && is_self(*view.learner));
}

void Server::adopt(ShardId shard, const View& view, Micros now, Outbox& out) {
  Epoch& seen = epochs_[shard];
  const bool is_same_again = planted(Fault::ReuseEpoch) && view.epoch == seen;
  if ((view.epoch <= seen && !is_same_again) || view.chain.empty()) {
    return;
  }
  seen = view.epoch;
  has_news_ = true;
  if (!belongs(view)) {
    replicas_.erase(shard);
    return handle_early(early_, shard, now, out);  // refuses them
  }
  std::unique_ptr<Replica>& held = replicas_[shard];
  if (!held) {
    held = std::make_unique<Replica>(ReplicaOptions{.shard = shard,
                                                    .shard_count = shard_count_,
                                                    .self = {options_.id, options_.incarnation},
                                                    .retry = options_.timing.retry,
                                                    .chunk_bytes = options_.chunk_bytes},
                                     tables_);
    if (origin_ != 0 && view.has_member(options_.id)) {  // the shard's first view
      held->restore(initial_state(shard));
    }
  }
  held->adopt(view, now, out);
  handle_early(early_, shard, now, out);
}

std::string Server::initial_state(ShardId shard) const {
  if (!options_.initial_state) {
    throw Error(ErrorKind::Usage,
                "the cluster was restored from a snapshot that this server does not have: start it "
                "with the same snapshot");
  }
  return options_.initial_state(shard, origin_);
}

void Server::take(const TakeSnapshot& request, Outbox& out) {
  for (const SnapshotPart& part : snapshot_.take(request)) {
    out.push_back({options_.id, NodeId::Coordinator, SnapshotWritten{request.number, part}});
  }
}

std::optional<SnapshotJob> Server::next_snapshot() {
  const auto shard = snapshot_.next([&](ShardId wanted) {
    const Replica* const held = replica(wanted);
    return held != nullptr && held->is_committed();
  });
  if (!shard) {
    return std::nullopt;
  }
  snapshot_.started(*shard);
  const Replica& held = *replica(*shard);
  return SnapshotJob{snapshot_.number(), *shard, held.applied(), held.snapshot()};
}

void Server::snapshot_written(const SnapshotWritten& written, Outbox& out) {
  if (written.number == snapshot_.number()) {
    snapshot_.written(written.part);
    out.push_back({options_.id, NodeId::Coordinator, written});
  }
}

void Server::reconnected(NodeId node, Micros now) {
  has_news_ = has_news_ || node == NodeId::Coordinator;
  for (const auto& [shard, held] : replicas_) {
    held->reconnected(node, now);
  }
}

void Server::leave() {
  has_news_ = has_news_ || !is_leaving_;
  is_leaving_ = true;
}

void Server::tick(Micros now, Outbox& out) {
  // A server that leaves asks until it may stop.
  const Micros interval =
      is_leaving_ ? std::min(options_.timing.heartbeat, kLeavingBeat) : options_.timing.heartbeat;
  if (has_news_ || now - last_beat_ >= interval) {
    beat(now, out);
  }
  for (const auto& [shard, held] : replicas_) {
    held->tick(now, out);
  }
}

void Server::beat(Micros now, Outbox& out) {
  has_news_ = false;
  last_beat_ = now;
  ServerBeat message{.incarnation = options_.incarnation,
                     .sent = now,
                     .address = options_.address,
                     .lease = options_.timing.lease,
                     .reactors = options_.reactors,
                     .tables = static_cast<std::uint32_t>(tables_.size()),
                     .shards = {},
                     .leaving = is_leaving_};
  for (const auto& [shard, epoch] : epochs_) {
    const Replica* const held = replica(shard);
    message.shards.push_back({shard, epoch, held ? held->progress() : Progress::Behind});
  }
  out.push_back({options_.id, NodeId::Coordinator, std::move(message)});
}

}  // namespace trireme::ps
