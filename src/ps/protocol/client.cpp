#include "ps/protocol/client.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "base/indexed_vector.h"
#include "ps/protocol/fault.h"
#include "ps/protocol/ring.h"

namespace trireme::ps {
namespace {

/// Pushes and pulls sent again at once.
constexpr std::size_t kMaxResent = 64;
/// A request that stays unanswered is repeated less and less often, down to once in this many retry times.
constexpr Micros kMaxBackoff = 16;
/// The state is requested at least this often, however long leases are.
constexpr Micros kLongestAsk = 30'000;
constexpr Micros kFirstRefusedWait = 5'000;

}  // namespace

void Client::handle(const Envelope& envelope, Micros now, Outbox& out) {
  std::visit(
      [&]<class M>(const M& message) {
        if constexpr (std::is_same_v<M, PushDone> || std::is_same_v<M, WrongView> ||
                      std::is_same_v<M, ClusterState>) {
          take(message, now, out);
        } else if constexpr (std::is_same_v<M, PullDone>) {
          take(message, now);
        } else if constexpr (std::is_same_v<M, SlowestClocks>) {
          take(message);
        } else if constexpr (std::is_same_v<M, Refusal>) {
          refusals_[message.subject] = message.reason;
        } else if constexpr (std::is_same_v<M, Metrics>) {
          metrics_[envelope.from] = message;
        }
      },
      envelope.message);
}

void Client::take(const ClusterState& state, Micros now, Outbox& out) {
  has_state_ = true;
  if (state.views.size() == state.shard_count) {
    is_healthy_ = state.is_healthy;
    stuck_ = state.stuck;
    ++states_received_;
  }
  for (const TableEntry& entry : state.tables) {
    if (position_of(entry.id) == tables_.size()) {
      tables_.push_back(entry.spec);
    }
  }
  addresses_.clear();
  conditions_.clear();
  for (const ServerAddress& server : state.servers) {
    addresses_[server.server] = server.address;
    conditions_[server.server] = server.condition;
  }
  if (lanes_.empty() && state.views.size() == state.shard_count) {
    lanes_.resize(state.shard_count);
  }
  for (const ShardView& entry : state.views) {
    if (has(entry.shard)) {
      adopt(lane(entry.shard), entry.view, now, out);
    }
  }
}

void Client::adopt(Lane& lane, const View& view, Micros now, Outbox& out) {
  if (view.epoch > lane.view.epoch && !view.chain.empty()) {
    lane.view = view;
    lane.is_refused = false;
    lane.refused_wait = 0;
    send_again(lane, now, out);
  } else if (lane.is_refused && view.epoch == lane.view.epoch) {
    repeat_refused(lane, now, out);
  }
}

/// The view is still the newest: a server that refused it had not read it yet, or has restarted without it.
void Client::repeat_refused(Lane& lane, Micros now, Outbox& out) {
  if (now - lane.last_progress >= lane.refused_wait) {
    lane.is_refused = false;
    lane.refused_wait = std::clamp(2 * lane.refused_wait, kFirstRefusedWait, options_.timing.retry);
    send_again(lane, now, out);
  }
}

void Client::take(const WrongView& answer, Micros now, Outbox& out) {
  if (!has(answer.shard)) {
    return;
  }
  Lane& own = lane(answer.shard);
  if (answer.view.epoch > own.view.epoch) {
    adopt(own, answer.view, now, out);
  } else {
    own.is_refused =
        own.is_refused || (answer.view.epoch == own.view.epoch && answer.view.chain.empty());
    ask_for_state(now, out);
  }
}

std::optional<TableId> Client::find_table(std::string_view name) const {
  const auto at = std::ranges::find(tables_, name, &TableSpec::name);
  if (at == tables_.end()) {
    return std::nullopt;
  }
  return static_cast<TableId>(at - tables_.begin());
}

void Client::create_table(const TableSpec& spec, Outbox& out) {
  out.push_back({options_.id, NodeId::Coordinator, CreateTable{spec}});
}

std::vector<Part> Client::split(TableId table, const KeySet& keys) const {
  const Key total = tables_.at(table).keys;
  const auto count = static_cast<std::uint32_t>(lanes_.size());
  std::vector<Part> parts;
  std::size_t first = 0;
  while (first < keys.count()) {
    const Key key = keys.list.empty() ? keys.begin + first : keys.list[first];
    const ShardId shard = shard_of(total, key, count);
    const Key end = shard_range(total, shard, count).end;
    Part& part = parts.emplace_back(Part{shard, {}, first});
    if (keys.list.empty()) {
      part.keys = {key, std::min(end, keys.end)};
    } else {
      const auto begin = keys.list.begin() + static_cast<std::ptrdiff_t>(first);
      part.keys.list.assign(begin, std::lower_bound(begin, keys.list.end(), end));
    }
    first += part.keys.count();
  }
  return parts;
}

OpId Client::push(TableId table, const Part& part, Values values, Reply reply, Micros now,
                  Outbox& out) {
  Lane& to = lane(part.shard);
  values.retain();
  if (to.pushes.empty() && to.pulls.empty()) {
    note_progress(to, now);
  }
  const PendingPush& pending = to.pushes.emplace_back(PendingPush{next_op_++,
                                                                  Push{.shard = part.shard,
                                                                       .epoch = to.view.epoch,
                                                                       .worker = options_.id,
                                                                       .sequence = to.next++,
                                                                       .table = table,
                                                                       .reply = reply,
                                                                       .keys = part.keys,
                                                                       .values = std::move(values)},
                                                                  now});
  ++pending_;
  send(to, pending.message, out);
  return pending.op;
}

OpId Client::pull(TableId table, const Part& part, Micros now, Outbox& out) {
  Lane& to = lane(part.shard);
  if (to.pushes.empty() && to.pulls.empty()) {
    note_progress(to, now);
  }
  const OpId op = next_op_++;
  ++pending_;
  start_pull(to, op,
             Pull{.shard = part.shard,
                  .worker = options_.id,
                  .request = op,
                  .after = to.next - 1,
                  .table = table,
                  .keys = part.keys},
             now, out);
  return op;
}

void Client::start_pull(Lane& lane, OpId op, Pull message, Micros now, Outbox& out) {
  const auto request = message.request;
  const auto at = lane.pulls.insert_or_assign(request, PendingPull{op, std::move(message), now});
  send(lane, at.first->second.message, out);
}

void Client::send(const Lane& lane, Push message, Outbox& out) {
  message.epoch = lane.view.epoch;
  out.push_back({options_.id, lane.view.chain.front().server, std::move(message)});
}

void Client::send(const Lane& lane, Pull message, Outbox& out) {
  message.epoch = lane.view.epoch;
  const Member& to = planted(Fault::ServeAtHead) ? lane.view.chain.front() : lane.view.chain.back();
  out.push_back({options_.id, to.server, std::move(message)});
}

void Client::note_progress(Lane& lane, Micros now) {
  lane.last_progress = now;
  lane.patience = options_.timing.retry;
}

void Client::send_again(Lane& lane, Micros now, Outbox& out) {
  note_progress(lane, now);
  std::size_t sent = 0;
  for (PendingPush& pending : lane.pushes) {
    if (sent++ == kMaxResent) {
      break;
    }
    if (planted(Fault::RenumberRetries)) {
      pending.message.sequence = lane.next++;
    }
    pending.sent = now;
    send(lane, pending.message, out);
  }
  sent = 0;
  for (auto& [request, pending] : lane.pulls) {
    if (sent++ == kMaxResent) {
      break;
    }
    pending.sent = now;
    send(lane, pending.message, out);
  }
}

/// Repeats what was lost while others on the lane are answered: the oldest push, after which all others are in order, and
/// pulls.
void Client::send_lost(Lane& lane, Micros now, Outbox& out) {
  const Micros latest = now - kMaxBackoff * options_.timing.retry;
  if (!lane.pushes.empty() && lane.pushes.front().sent <= latest) {
    lane.pushes.front().sent = now;
    send(lane, lane.pushes.front().message, out);
  }
  for (auto& [request, pending] : lane.pulls) {
    if (pending.sent <= latest) {
      pending.sent = now;
      send(lane, pending.message, out);
    }
  }
}

void Client::reconnected(NodeId server, Micros now, Outbox& out) {
  if (server == NodeId::Coordinator) {
    asked_.reset();
    return beat(now, out);
  }
  for (Lane& lane : lanes_) {
    const bool concerns = !lane.view.chain.empty() && (lane.view.chain.front().server == server ||
                                                       lane.view.chain.back().server == server);
    if (concerns && (!lane.pushes.empty() || !lane.pulls.empty())) {
      send_again(lane, now, out);
    }
  }
}

void Client::take(const PushDone& done, Micros now, Outbox& out) {
  if (!has(done.shard)) {
    return;
  }
  Lane& own = lane(done.shard);
  const auto at = std::ranges::find(own.pushes, done.sequence,
                                    [](const PendingPush& p) { return p.message.sequence; });
  if (at == own.pushes.end()) {
    return;  // answered before
  }
  note_progress(own, now);
  const PendingPush pending = std::move(*at);
  own.pushes.erase(at);
  if (pending.message.reply == Reply::Values && done.values.size() == 0) {
    start_pull(own, pending.op,
               Pull{.shard = done.shard,
                    .worker = options_.id,
                    .request = pending.op,
                    .after = done.sequence,
                    .table = pending.message.table,
                    .keys = pending.message.keys},
               now, out);
  } else {
    --pending_;
    completions_.push_back({pending.op, done.values});
  }
  report_clocks(now, out);
}

void Client::take(const PullDone& done, Micros now) {
  if (!has(done.shard)) {
    return;
  }
  Lane& own = lane(done.shard);
  const auto at = own.pulls.find(done.request);
  if (at == own.pulls.end()) {
    return;
  }
  note_progress(own, now);
  --pending_;
  completions_.push_back({at->second.op, done.values});
  own.pulls.erase(at);
}

std::optional<OpId> Client::find_push(ShardId shard, Sequence sequence) const {
  if (!has(shard)) {
    return std::nullopt;
  }
  for (const PendingPush& pending : lanes_[shard].pushes) {
    if (pending.message.sequence == sequence) {
      return pending.op;
    }
  }
  return std::nullopt;
}

std::optional<OpId> Client::find_pull(ShardId shard, std::uint64_t request) const {
  if (!has(shard)) {
    return std::nullopt;
  }
  const auto& pulls = lanes_[shard].pulls;
  const auto at = pulls.find(request);
  return at == pulls.end() ? std::nullopt : std::optional(at->second.op);
}

std::vector<Completion> Client::take_completions() {
  return std::exchange(completions_, {});
}

void Client::detach() {
  for (Lane& lane : lanes_) {
    for (PendingPush& pending : lane.pushes) {
      pending.message.values.detach();
    }
  }
}

void Client::tick(Micros now, Outbox& out) {
  if (!is_ready()) {
    ask_for_state(now, out);
  }
  if (!beaten_ || now - *beaten_ >= options_.timing.heartbeat) {
    beat(now, out);
  }
  for (Lane& lane : lanes_) {
    const bool is_waiting = !lane.pushes.empty() || !lane.pulls.empty();
    if (is_waiting && lane.is_refused) {
      ask_for_state(now, out);
    }
    if (is_waiting && now - lane.last_progress >= lane.patience) {
      const Micros patience = lane.patience;
      send_again(lane, now, out);
      lane.patience = std::min(2 * patience, kMaxBackoff * options_.timing.retry);
      ask_for_state(now, out);
    } else if (is_waiting) {
      send_lost(lane, now, out);
    }
  }
}

void Client::ask_for_metrics(Outbox& out) const {
  std::vector<NodeId> nodes{NodeId::Coordinator};
  for (const auto& [server, address] : addresses_) {
    nodes.push_back(server);
  }
  for (const NodeId node : nodes) {
    if (!metrics_.contains(node)) {
      out.push_back({options_.id, node, GetMetrics{}});
    }
  }
}

void Client::ask_for_state(Micros now, Outbox& out) {
  if (!asked_ || now - *asked_ >= std::min(options_.timing.heartbeat, kLongestAsk)) {
    asked_ = now;
    out.push_back({options_.id, NodeId::Coordinator, GetState{}});
  }
}

// --- Clocks.

void Client::join_clock(TableId table, Micros now, Outbox& out) {
  clocks_.try_emplace(table);
  beat(now, out);
}

void Client::complete_iteration(TableId table, Micros now, Outbox& out) {
  advance_clock(table, clocks_.at(table).completed + 1, now, out);
}

void Client::advance_clock(TableId table, ClockCount to, Micros now, Outbox& out) {
  WorkerClock& clock = clocks_.at(table);
  if (to > clock.completed) {
    clock.completed = to;
    clock.unreported.push_back({to, next_op_});
    report_clocks(now, out);
  }
}

/// Reports the iterations whose pushes have all been acknowledged.
void Client::report_clocks(Micros now, Outbox& out) {
  OpId oldest = std::numeric_limits<OpId>::max();
  for (const Lane& lane : lanes_) {
    if (!lane.pushes.empty() && !planted(Fault::ClockBeforeAcknowledged)) {
      oldest = std::min(oldest, lane.pushes.front().op);
    }
  }
  bool has_news = false;
  for (auto& [table, clock] : clocks_) {
    while (!clock.unreported.empty() && clock.unreported.front().before <= oldest) {
      clock.reported = std::max(clock.reported, clock.unreported.front().clock);
      clock.unreported.pop_front();
      has_news = true;
    }
  }
  if (has_news) {
    beat(now, out);
  }
}

void Client::beat(Micros now, Outbox& out) {
  beaten_ = now;
  WorkerBeat message{.sent = now, .lease = options_.timing.lease};
  for (const auto& [table, clock] : clocks_) {
    message.clocks.push_back({table, clock.reported});
  }
  out.push_back({options_.id, NodeId::Coordinator, std::move(message)});
}

// A slowest clock beyond the own one means that the others continued without this worker; it resumes where they are. An
// answer that leaves a table out renews no lease there: the coordinator may not count this worker, or not know all clocks.
void Client::take(const SlowestClocks& message) {
  for (const SlowestClock& entry : message.slowest) {
    const auto at = clocks_.find(entry.table);
    if (at == clocks_.end() || entry.registration < at->second.registration) {
      continue;
    }
    WorkerClock& clock = at->second;
    if (entry.registration > clock.registration) {
      clock.registration = entry.registration;
      clock.slowest.reset();
    }
    if (message.sent != 0) {
      clock.lease_begin = std::max(clock.lease_begin.value_or(message.sent), message.sent);
    }
    clock.slowest = std::max(clock.slowest.value_or(entry.clock), entry.clock);
    clock.completed = std::max(clock.completed, entry.clock);
    clock.reported = std::max(clock.reported, entry.clock);
  }
}

bool Client::may_start(TableId table, Micros now) const {
  const auto at = clocks_.find(table);
  if (at == clocks_.end() || !at->second.slowest) {
    return false;
  }
  const std::optional<Micros> begin = at->second.lease_begin;
  if (!begin || now >= *begin + options_.timing.lease) {
    return false;
  }
  const std::optional<ClockCount> bound = staleness_bound(tables_.at(table));
  const ClockCount extra = planted(Fault::StartEarly) ? 2 : 0;
  return ps::may_start(at->second.completed - extra, *at->second.slowest, bound);
}

ClockCount Client::clock(TableId table) const {
  const auto at = clocks_.find(table);
  return at == clocks_.end() ? 0 : at->second.completed;
}

std::optional<ClockCount> Client::slowest(TableId table) const {
  const auto at = clocks_.find(table);
  return at == clocks_.end() ? std::nullopt : at->second.slowest;
}

void Client::leave(Outbox& out) {
  clocks_.clear();
  out.push_back({options_.id, NodeId::Coordinator, WorkerBeat{.leaving = true}});
}

}  // namespace trireme::ps
