#include "ps/protocol/replica.h"

#include <algorithm>
#include <utility>

#include "ps/protocol/fault.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

/// Entries in flight to the follower; more are sent when it has acknowledged these.
constexpr Index kWindow = 1024;
constexpr std::size_t kMaxWaiting = 4096;  ///< pulls

std::size_t place_in(const View& view, NodeId server) {
  const auto at = std::ranges::find(view.chain, server, &Member::server);
  return at - view.chain.begin();
}

}  // namespace

Replica::Replica(const ReplicaOptions& options, const KnownTables& tables)
    : options_(options), tables_(&tables), state_(options.shard, options.shard_count, tables) {}

void Replica::restore(std::string_view bytes) {
  ShardState whole(options_.shard, options_.shard_count, *tables_);
  whole.decode(bytes);
  state_ = std::move(whole);
  log_.clear();
  committed_ = state_.applied();
}

/// A former member may hold pushes that were never committed, under indices that others have reused since.
void Replica::start_over() {
  state_ = ShardState(options_.shard, options_.shard_count, *tables_);
  log_.clear();
  committed_ = 0;
  has_state_ = planted(Fault::AdmitLearnerEarly);
  synced_ = planted(Fault::AdmitLearnerEarly);
}

// A member of the first view starts empty, and legitimately: nothing is committed without it. It stays synced as long as
// it is a member, because what its successors acknowledge it has applied before. Only a learner has to catch up.
void Replica::adopt(const View& view, Micros now, Outbox& out) {
  const bool is_new = view_.epoch == 0;
  const bool was_learner = !is_new && is_learner();
  const bool was_tail = !is_new && is_tail();
  view_ = view;
  place_ = place_in(view_, options_.self.server);
  sync_point_.reset();
  outgoing_.reset();
  incoming_.reset();
  waiting_.clear();
  follower_has_ = 0;
  is_streaming_ = false;
  heard_follower_ = now;
  is_linked_ = !predecessor().has_value();
  if (is_learner() && !was_learner) {
    start_over();
  } else if (was_learner && planted(Fault::ServeUnsynced)) {
    synced_ = true;
  }
  epoch_begin_ = state_.applied();
  if (is_tail() && !was_tail && synced_) {
    commit(state_.applied(), now, out);  // the old tail is gone: all that is here is replicated
  }
  truncate();
  if (!is_linked_) {
    ask_to_resume(now, out);
  }
}

Progress Replica::progress() const {
  if (is_learner()) {
    const bool caught_up = has_state_ && sync_point_ && state_.applied() >= *sync_point_;
    return caught_up || planted(Fault::AdmitLearnerEarly) ? Progress::CaughtUp : Progress::Behind;
  }
  return synced_ ? Progress::Synced : Progress::Behind;
}

std::optional<NodeId> Replica::predecessor() const {
  if (is_head()) {
    return std::nullopt;
  }
  return view_.chain[place_ - 1].server;
}

std::optional<NodeId> Replica::follower() const {
  if (place_ + 1 < view_.chain.size()) {
    return view_.chain[place_ + 1].server;
  }
  if (is_tail() && view_.learner) {
    return view_.learner->server;
  }
  return std::nullopt;
}

bool Replica::is_current(Epoch epoch) const {
  return epoch == view_.epoch || (planted(Fault::AcceptStaleEpoch) && epoch != 0);
}

Replica::Entry* Replica::uncommitted(NodeId worker, Sequence sequence) {
  const auto at = std::ranges::find_if(log_, [&](const Entry& entry) {
    return entry.index > committed_ && entry.push.worker == worker &&
           entry.push.sequence == sequence;
  });
  return at == log_.end() ? nullptr : &*at;
}

void Replica::send(NodeId to, Message message, Outbox& out) const {
  out.push_back({options_.self.server, to, std::move(message)});
}

void Replica::handle(const Push& push, Micros now, Outbox& out) {
  if (push.epoch > view_.epoch) {
    return;  // this server's view is outdated; the worker will repeat
  }
  if (push.epoch < view_.epoch || !is_head()) {
    return send(push.worker, WrongView{options_.shard, view_}, out);
  }
  const Sequence last =
      planted(Fault::IgnoreSequences) ? push.sequence - 1 : state_.last(push.worker);
  if (push.sequence <= last) {
    if (Entry* const entry = uncommitted(push.worker, push.sequence)) {
      entry->is_repeated = true;
    } else {
      acknowledge_repeated(push, out);
    }
    return;
  }
  if (push.sequence == last + 1 && state_.fits(push)) {
    append(push, now, out);
  }
}

/// Applies the next push, forwards it, and commits it at the tail.
void Replica::append(const Push& push, Micros now, Outbox& out) {
  state_.apply(push);
  if (follower()) {
    if (log_.empty()) {
      heard_follower_ = now;
    }
    Entry& entry = log_.emplace_back(Entry{state_.applied(), push});
    entry.push.values.retain();
    pump(out);
  }
  if (is_tail()) {
    committed_ = state_.applied();
    acknowledge(push, out);
    serve_waiting(out);
  } else if (is_head() && planted(Fault::AcknowledgeAtHead)) {
    acknowledge(push, out);
  }
}

void Replica::acknowledge(const Push& push, Outbox& out) {
  PushDone done{options_.shard, view_.epoch, push.sequence, {}};
  if (push.reply == Reply::Values && synced_) {
    done.values = state_.read(push.table, push.keys);
  }
  send(push.worker, std::move(done), out);
}

/// Without values: what this replica has applied may be ahead of the tail. The worker pulls them.
void Replica::acknowledge_repeated(const Push& push, Outbox& out) const {
  send(push.worker, PushDone{options_.shard, view_.epoch, push.sequence, {}}, out);
}

void Replica::handle(NodeId from, const Forward& forward, Micros now, Outbox& out) {
  const bool is_stale = planted(Fault::AcceptStaleEpoch) && forward.push.epoch < view_.epoch;
  if (!is_current(forward.push.epoch) || (predecessor() != from && !is_stale) || !has_state_) {
    return;
  }
  heard_predecessor_ = now;
  const bool is_next = forward.index == applied() + 1 || is_stale ||
                       (planted(Fault::SkipGaps) && forward.index > applied());
  if (is_next) {
    if (!state_.fits(forward.push)) {
      return;  // a table that this server does not know yet; it will be sent again
    }
    append(forward.push, now, out);
    if (sync_point_ && applied() >= *sync_point_ && !is_learner()) {
      synced_ = true;
      serve_waiting(out);
    }
  } else if (forward.index > applied()) {
    if (now - asked_predecessor_ >= options_.retry / 4) {
      ask_to_resume(now, out);
    }
    return;
  }
  if (is_tail() || is_learner()) {
    send(from, Commit{options_.shard, view_.epoch, applied()}, out);
  } else if (forward.index <= committed_) {
    send(from, Commit{options_.shard, view_.epoch, committed_}, out);
  }
}

void Replica::handle(NodeId from, const Commit& commit_message, Micros now, Outbox& out) {
  if (!is_current(commit_message.epoch) || follower() != from || commit_message.index > applied()) {
    return;
  }
  heard_follower_ = now;
  follower_has_ = std::max(follower_has_, commit_message.index);
  if (is_tail()) {
    truncate();  // from the learner, which does not count
  } else {
    commit(commit_message.index, now, out);
  }
  pump(out);
}

/// Everything up to the index is at the tail, which has acknowledged it. A worker that repeated its push before that may
/// not have been connected to the tail yet.
void Replica::commit(Index index, Micros now, Outbox& out) {
  if (index > committed_) {
    heard_follower_ = now;
    const Index before = std::exchange(committed_, index);
    for (const Entry& entry : log_) {
      if (entry.index <= before || entry.index > index) {
        continue;
      }
      if (is_tail()) {
        acknowledge(entry.push, out);
      } else if (entry.is_repeated) {
        acknowledge_repeated(entry.push, out);
      }
    }
  }
  truncate();
  if (const auto previous = predecessor(); previous && is_linked_) {
    send(*previous, Commit{options_.shard, view_.epoch, committed_}, out);
  }
}

/// Drops what nobody needs any more.
void Replica::truncate() {
  Index needed = committed_;
  if (follower()) {
    needed =
        std::min(needed, outgoing_ ? std::max(outgoing_->index, follower_has_) : follower_has_);
  }
  while (!log_.empty() && log_.front().index <= needed) {
    log_.pop_front();
  }
}

void Replica::ask_to_resume(Micros now, Outbox& out) {
  heard_predecessor_ = now;
  asked_predecessor_ = now;
  send(*predecessor(), Resume{options_.shard, view_.epoch, has_state_, applied()}, out);
}

void Replica::handle(NodeId from, const Resume& resume, Outbox& out) {
  const bool is_delayed = resume.applied < follower_has_;
  if (!is_current(resume.epoch) || follower() != from || !has_state_ || is_delayed) {
    return;
  }
  const Index log_begin = log_.empty() ? applied() : log_.front().index - 1;
  const bool in_log =
      resume.has_state && resume.applied >= log_begin && resume.applied <= applied();
  if (in_log) {
    follower_has_ = std::max(follower_has_, resume.applied);
    send(from, SyncPoint{options_.shard, view_.epoch, epoch_begin_}, out);
    outgoing_.reset();
    is_streaming_ = true;
    sent_ = resume.applied;
    return pump(out);
  }
  if (!outgoing_) {
    outgoing_ = Outgoing{applied(), state_.encode()};
  }
  send(from, SnapshotOffer{options_.shard, view_.epoch, outgoing_->index, outgoing_->bytes.size()},
       out);
}

/// Continues to send the log to the follower, which has reported where to begin.
void Replica::pump(Outbox& out) {
  while (is_streaming_ && sent_ < applied() && sent_ < follower_has_ + kWindow) {
    Entry& next = log_.at(sent_ + 1 - log_.front().index);
    next.push.epoch = view_.epoch;
    send(*follower(), Forward{next.index, next.push}, out);
    ++sent_;
  }
}

void Replica::handle(NodeId from, const SyncPoint& point, Outbox& out) {
  if (!is_current(point.epoch) || predecessor() != from) {
    return;
  }
  is_linked_ = true;
  sync_point_ = point.index;
  if (!is_learner() && applied() >= point.index) {
    synced_ = true;
    serve_waiting(out);
  }
}

void Replica::handle(NodeId from, const SnapshotOffer& offer, Micros now, Outbox& out) {
  const bool is_old = has_state_ && offer.index <= applied();  // it answers a delayed Resume
  if (!is_current(offer.epoch) || predecessor() != from || is_old) {
    return;
  }
  if (!incoming_ || incoming_->index != offer.index) {
    incoming_ = Incoming{offer.index, offer.bytes, {}};
  }
  fetch_next(now, out);
}

void Replica::fetch_next(Micros now, Outbox& out) {
  heard_predecessor_ = now;
  send(*predecessor(),
       FetchChunk{options_.shard, view_.epoch, incoming_->index, incoming_->bytes.size()}, out);
}

void Replica::handle(NodeId from, const FetchChunk& fetch, Outbox& out) {
  const bool is_valid = is_current(fetch.epoch) && follower() == from && outgoing_ &&
                        outgoing_->index == fetch.snapshot &&
                        fetch.offset <= outgoing_->bytes.size();
  if (is_valid) {
    send(from,
         Chunk{options_.shard, view_.epoch, fetch.snapshot, fetch.offset,
               outgoing_->bytes.substr(fetch.offset, options_.chunk_bytes)},
         out);
  }
}

void Replica::handle(NodeId from, const Chunk& chunk, Micros now, Outbox& out) {
  const bool is_next = is_current(chunk.epoch) && predecessor() == from && incoming_ &&
                       incoming_->index == chunk.snapshot &&
                       incoming_->bytes.size() == chunk.offset;
  if (!is_next) {
    return;
  }
  incoming_->bytes += chunk.bytes;
  if (incoming_->bytes.size() < incoming_->size) {
    return fetch_next(now, out);
  }
  const Incoming whole = *std::exchange(incoming_, std::nullopt);
  if (has_state_ && whole.index <= applied()) {
    return;
  }
  try {
    restore(whole.bytes);
  } catch (const Error&) {
    return;  // of tables that this server does not know yet: tick() starts again
  }
  has_state_ = true;
  ask_to_resume(now, out);
}

void Replica::handle(const Pull& pull, Micros now, bool has_lease, Outbox& out) {
  if (pull.epoch > view_.epoch) {
    return;
  }
  const bool may_serve = is_tail() || (planted(Fault::ServeAtHead) && !is_learner());
  if (pull.epoch < view_.epoch || !may_serve) {
    return send(pull.worker, WrongView{options_.shard, view_}, out);
  }
  if (!state_.has(pull.table, pull.keys)) {
    return;
  }
  const bool is_confirmed = has_lease || planted(Fault::ServeWithoutLease);
  if (is_confirmed && has_what_it_needs(pull)) {
    serve(pull, out);
  } else if (is_confirmed || !planted(Fault::DropPullsWithoutLease)) {
    keep(pull, now, is_confirmed);
  }
}

bool Replica::has_what_it_needs(const Pull& pull) const {
  const bool has_own_pushes =
      state_.last(pull.worker) >= pull.after || planted(Fault::IgnoreReadMyWrites);
  return synced_ && has_own_pushes;
}

/// The oldest make room: their workers repeat them, or are dead.
void Replica::keep(const Pull& pull, Micros now, bool is_confirmed) {
  const bool is_repeated = std::ranges::any_of(waiting_, [&](const WaitingPull& waiting) {
    return waiting.pull.worker == pull.worker && waiting.pull.request == pull.request;
  });
  if (is_repeated) {
    return;
  }
  if (waiting_.size() >= kMaxWaiting) {
    waiting_.pop_front();
  }
  waiting_.push_back({pull, now, is_confirmed});
}

void Replica::confirm(Micros when, Outbox& out) {
  for (WaitingPull& waiting : waiting_) {
    waiting.is_confirmed = waiting.is_confirmed || waiting.arrived < when;
  }
  serve_waiting(out);
}

void Replica::serve(const Pull& pull, Outbox& out) {
  send(pull.worker,
       PullDone{options_.shard, view_.epoch, pull.request, state_.read(pull.table, pull.keys)},
       out);
}

/// What they read now was acknowledged later than the moment in which no other server was the tail, or is about to be.
void Replica::serve_waiting(Outbox& out) {
  std::erase_if(waiting_, [&](const WaitingPull& waiting) {
    const bool is_ready = waiting.is_confirmed && has_what_it_needs(waiting.pull);
    if (is_ready) {
      serve(waiting.pull, out);
    }
    return is_ready;
  });
}

void Replica::reconnected(NodeId node, Micros now) {
  if (predecessor() == node) {
    heard_predecessor_ = now - options_.retry;
  }
  if (follower() == node) {
    heard_follower_ = now - options_.retry;
  }
}

void Replica::tick(Micros now, Outbox& out) {
  const bool is_waiting = !is_linked_ || incoming_ || !has_state_ || (!synced_ && !is_learner());
  if (predecessor() && is_waiting && now - heard_predecessor_ >= options_.retry) {
    if (incoming_) {
      fetch_next(now, out);
    } else {
      ask_to_resume(now, out);
    }
  }
  if (follower() && !log_.empty() && now - heard_follower_ >= options_.retry) {
    heard_follower_ = now;
    sent_ = log_.front().index - 1;
    pump(out);
  }
}

}  // namespace trireme::ps
