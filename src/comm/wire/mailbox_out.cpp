// How a mailbox sends. The first piece of a message always goes over the first line; so short messages stay in order,
// and a receiver knows a message before its other pieces can arrive. If the message must be requested, the other pieces
// wait until it is.
#include <algorithm>
#include <cstddef>
#include <utility>

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // XXH3_64bits with the widest registers that the processor has
#endif

#include "comm/wire/mailbox.h"
#include "comm/wire/mailbox_state.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

std::uint64_t total_of(const std::vector<std::span<const std::byte>>& parts) {
  std::uint64_t total = 0;
  for (const auto& part : parts) {
    total += part.size();
  }
  return total;
}

}  // namespace

std::uint32_t sum_of(std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(XXH3_64bits(data.data(), data.size()));
}

std::uint32_t sum_of(const PieceHeader& header) {
  return sum_of(std::as_bytes(std::span(&header, 1)).first(offsetof(PieceHeader, head_sum)));
}

void Mailbox::enqueue(Rank to, const Key& key, std::shared_ptr<Sending> sending, Urgency urgency) {
  PieceHeader& header = sending->header;
  header.magic = kMessageMagic;
  header.topic = key.topic;
  header.context = key.context;
  header.number = key.number;
  header.total = total_of(sending->parts);
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[to];
  header.serial = peer.next_serial++;
  if (urgency == Urgency::Urgent) {
    peer.queue.push_front(std::move(sending));
  } else {
    peer.queue.push_back(std::move(sending));
  }
  (void)push_out(peer);
}

/// Requests the rest of a message from its sender.
void Mailbox::ask(Peer& peer, std::uint32_t serial) {
  auto sending = std::make_shared<Sending>();
  sending->header.magic = kMessageMagic;
  sending->header.topic = Topic::Asking;
  sending->header.number = serial;
  sending->header.serial = peer.next_serial++;
  peer.queue.push_front(std::move(sending));
  (void)push_out(peer);
}

/// The rest of a message may be sent. If it is missing, it was cancelled, or was sent already.
void Mailbox::resume(Peer& peer, std::uint64_t serial) {
  const auto it = std::ranges::find_if(
      peer.unasked, [&](const auto& sending) { return sending->header.serial == serial; });
  if (it != peer.unasked.end()) {
    peer.queue.push_back(std::move(*it));
    peer.unasked.erase(it);
    (void)push_out(peer);
  }
}

void Mailbox::resume_impatient(Peer& peer) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(peer.unasked, [&](const std::shared_ptr<Sending>& sending) {
    if (sending->message->patient) {
      return false;
    }
    const bool goes = now - sending->waits_since >= kHoldUp;
    if (goes) {
      peer.queue.push_back(sending);
    } else {
      held_up_.store(true, std::memory_order_relaxed);
    }
    return goes;
  });
}

bool Mailbox::push_out(Peer& peer) {
  if (peer.broken || peer.cannot_write) {
    return false;
  }
  if (!peer.unasked.empty()) {
    resume_impatient(peer);
  }
  try {
    return progress_out(peer);
  } catch (const Error&) {
    peer.cannot_write = true;  // what it sent earlier is still read; that shows how it ended
    return false;
  }
}

/// One piece per line in turn, to balance the load.
bool Mailbox::progress_out(Peer& peer) {
  bool moved = false;
  for (bool again = true; again;) {
    again = false;
    for (std::size_t k = 0; k < peer.lines.size(); ++k) {
      Line& line = *peer.lines[k];
      if (line.sending || take_next(peer, line, k == 0)) {
        moved = write_some(line) || moved;
        again = again || !line.sending;  // otherwise the stream is full
      }
    }
  }
  return moved;
}

/// Gives the line its next piece. False if there is none.
bool Mailbox::take_next(Peer& peer, Line& line, bool is_first_line) {
  if (peer.queue.empty() || (!is_first_line && peer.queue.front()->cut == 0)) {
    return false;
  }
  line.sending = peer.queue.front();
  prepare_piece(line);
  if (line.out_header.topic == Topic::Control) {
    line.out_header.fingerprint = peer.pieces_out;
  } else {
    ++peer.pieces_out;
  }
  if (peer.checksums) {
    line.out_header.data_sum = sum_of(line.out_body);
    line.out_header.head_sum = sum_of(line.out_header);
  }
  const bool waits = must_be_requested(line.sending->header) && line.out_header.offset == 0;
  if (waits) {
    line.sending->waits_since = std::chrono::steady_clock::now();
    peer.unasked.push_back(line.sending);
  }
  if (waits || line.sending->cut == line.sending->header.total) {
    peer.queue.pop_front();
  }
  return true;
}

/// Splits the next piece off the line's message.
void Mailbox::prepare_piece(Line& line) {
  Sending& sending = *line.sending;
  const bool beginning = sending.cut == 0 && must_be_requested(sending.header);
  const std::uint64_t length = std::min<std::uint64_t>(beginning ? kBeginningBytes : kPieceBytes,
                                                       sending.header.total - sending.cut);
  line.out_header = sending.header;
  line.out_header.offset = sending.cut;
  line.out_header.length = static_cast<std::uint32_t>(length);
  line.out_done = 0;
  line.out_gathered.clear();
  std::uint64_t skip = sending.cut;
  std::uint64_t need = length;
  for (const std::span<const std::byte> part : sending.parts) {
    if (skip >= part.size()) {
      skip -= part.size();
      continue;
    }
    const std::uint64_t here = std::min<std::uint64_t>(need, part.size() - skip);
    const std::span<const std::byte> bytes = part.subspan(skip, here);
    if (here == length) {
      line.out_body = bytes;
    } else {
      line.out_gathered.insert(line.out_gathered.end(), bytes.begin(), bytes.end());
      line.out_body = line.out_gathered;
    }
    skip = 0;
    need -= here;
    if (need == 0) {
      break;
    }
  }
  if (length == 0) {
    line.out_body = {};
  }
  sending.cut += length;
  ++sending.pieces_out;
}

/// Writes what the stream accepts; ends the piece when all is written. True if anything was written.
bool Mailbox::write_some(Line& line) {
  const std::span<const std::byte> head = std::as_bytes(std::span(&line.out_header, 1));
  const std::size_t head_done = std::min(line.out_done, head.size());
  const std::size_t body_done = line.out_done - head_done;
  const std::size_t taken =
      line.stream->write(head.subspan(head_done), line.out_body.subspan(body_done));
  line.out_done += taken;
  if (line.sending->message != nullptr) {
    line.sending->message->moved.fetch_add(taken, std::memory_order_relaxed);
  }
  if (line.out_done == head.size() + line.out_body.size()) {
    Sending& sending = *line.sending;
    --sending.pieces_out;
    if (sending.message != nullptr && sending.pieces_out == 0 &&
        sending.cut == sending.header.total) {
      sending.message->done.store(true, std::memory_order_release);
      completed_ = true;
    }
    line.sending.reset();
  }
  return taken > 0;
}

}  // namespace trireme::comm
