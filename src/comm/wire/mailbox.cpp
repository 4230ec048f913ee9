#include "comm/wire/mailbox.h"

#include <algorithm>
#include <utility>

#include "comm/wire/mailbox_state.h"
#include "trireme/error.h"

namespace trireme::comm {

Mailbox::Mailbox(Rank ranks, Handlers handlers) : handlers_(std::move(handlers)) {
  for (Rank r = 0; r < ranks; ++r) {
    peers_.push_back(std::make_unique<Peer>());
  }
}
Mailbox::~Mailbox() = default;

void Mailbox::connect(Rank peer, std::vector<std::unique_ptr<Stream>> streams, bool checksums) {
  const std::lock_guard lock(mutex_);
  Peer& p = *peers_[peer];
  for (auto& stream : streams) {
    p.lines.push_back(std::make_unique<Line>());
    p.lines.back()->stream = std::move(stream);
  }
  p.checksums = checksums;
}

void Mailbox::send(Outgoing& message) {
  auto sending = std::make_shared<Sending>();
  sending->message = &message;
  sending->parts = message.parts;
  sending->header.fingerprint = message.fingerprint;
  enqueue(message.to, message.key, std::move(sending), Urgency::InTurn);
}

void Mailbox::post(Rank to, const Key& key, std::span<const std::byte> data, Urgency urgency) {
  auto sending = std::make_shared<Sending>();
  sending->copy.assign(data.begin(), data.end());
  sending->parts = {sending->copy};
  enqueue(to, key, std::move(sending), urgency);
}

void Mailbox::receive(Incoming& message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[message.from];
  if (!try_stored(peer, message)) {
    peer.waiting.emplace(message.key, &message);
  }
}

void Mailbox::cancel(Outgoing& message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[message.to];
  const auto is_it = [&](const std::shared_ptr<Sending>& s) { return s->message == &message; };
  std::erase_if(peer.queue, is_it);
  std::erase_if(peer.unasked, is_it);
  std::shared_ptr<Sending> cancelled;
  for (const auto& line : peer.lines) {
    if (line->sending && is_it(line->sending)) {
      line->out_copy.assign(line->out_body.begin(), line->out_body.end());
      line->out_body = line->out_copy;
      cancelled = line->sending;
    }
  }
  if (cancelled) {
    cancelled->message = nullptr;
  }
}

void Mailbox::cancel(Incoming& message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[message.from];
  const auto [first, last] = peer.waiting.equal_range(message.key);
  const auto is_it = [&](const auto& entry) { return entry.second == &message; };
  if (const auto it = std::find_if(first, last, is_it); it != last) {
    peer.waiting.erase(it);
  }
  for (auto& [serial, in_flight] : peer.in_flight) {
    in_flight.target = in_flight.target == &message ? nullptr : in_flight.target;
  }
  for (const auto& line : peer.lines) {
    if (line->target != &message) {
      continue;
    }
    if (lands_directly(message)) {  // the rest is read, and checked, next to what has arrived
      const std::byte* begin = message.parts[0].data + line->in_header.offset;
      line->in_room.resize(std::max<std::size_t>(line->in_room.size(), line->in_header.length));
      std::copy_n(begin, line->in_done, line->in_room.begin());
    }
    line->target = nullptr;
  }
}

void Mailbox::expect_end(Rank from, std::uint64_t pieces) {
  const std::lock_guard lock(mutex_);
  peers_[from]->last_piece = pieces;
}

bool Mailbox::has_everything(Rank from) {
  const std::lock_guard lock(mutex_);
  const Peer& peer = *peers_[from];
  if (!controls_.empty() || in_dispatch_) {
    return false;
  }
  if (peer.broken) {
    return true;
  }
  if (peer.last_piece) {
    return peer.pieces_in >= *peer.last_piece;
  }
  return std::ranges::all_of(peer.lines, [](const auto& line) {
    return line->in_head_done == 0 && line->stream->is_drained();
  });
}

void Mailbox::forget(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  forgotten_.insert(context);
  for (const auto& peer : peers_) {
    std::erase_if(peer->kept, [&](const auto& entry) {
      const bool dead = entry.first.context == context;
      if (dead) {
        redirect(*peer, *entry.second, nullptr);
      }
      return dead;
    });
  }
}

bool Mailbox::progress() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return false;
  }
  bool moved = false;
  held_up_.store(false, std::memory_order_relaxed);
  for (Rank r = 0; r < peers_.count(); ++r) {
    Peer& peer = *peers_[r];
    if (!peer.broken && !peer.lines.empty()) {
      progress_peer(r, peer, moved);
    }
  }
  if (completed_) {
    completed_ = false;
    handlers_.completed();
  }
  if (moved && held_up_.load(std::memory_order_relaxed)) {
    last_moved_ = std::chrono::steady_clock::now();
  }
  const bool news = !controls_.empty() || !lost_.empty();
  lock.unlock();
  if (news) {
    dispatch();
  }
  return moved;
}

void Mailbox::progress_peer(Rank rank, Peer& peer, bool& moved) {
  moved = push_out(peer) || moved;
  try {
    if (progress_in(rank, peer)) {
      moved = true;
      handlers_.heard(rank);
    }
  } catch (const Closed& closed) {
    break_peer(rank, peer, LossKind::Closed, closed.what());
  } catch (const std::exception& error) {
    break_peer(rank, peer, LossKind::Damaged, error.what());
  }
}

/// Passes control messages, and then losses, to their handlers. One thread at a time, so that they
/// stay in order; a thread that finds another one here leaves its own messages to that one.
void Mailbox::dispatch() {
  for (;;) {
    const std::unique_lock dispatching(dispatching_, std::try_to_lock);
    if (!dispatching.owns_lock()) {
      return;
    }
    std::vector<ControlMessage> controls;
    std::vector<Loss> lost;
    {
      const std::lock_guard lock(mutex_);
      controls = std::exchange(controls_, {});
      lost = std::exchange(lost_, {});
      in_dispatch_ = !controls.empty();
    }
    if (controls.empty() && lost.empty()) {
      return;
    }
    for (const ControlMessage& message : controls) {
      handlers_.control(message.from, message.header, message.data);
    }
    for (const Loss& loss : lost) {
      handlers_.lost(loss.rank, loss.kind, loss.why);
    }
  }
}

void Mailbox::break_peer(Rank from, Peer& peer, LossKind kind, const std::string& why) {
  peer.broken = true;
  report_lost(from, peer, kind, why);
}

void Mailbox::report_lost(Rank from, Peer& peer, LossKind kind, const std::string& why) {
  if (!std::exchange(peer.lost, true)) {
    lost_.push_back({from, kind, why});  // reported after the messages that precede the end
  }
}

}  // namespace trireme::comm
