// How a mailbox receives: which message arriving bytes belong to, whether they are intact, and where they go.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "comm/checks.h"
#include "comm/kernels/kernels.h"
#include "comm/wire/mailbox.h"
#include "comm/wire/mailbox_state.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

constexpr std::uint64_t kMaxControlBytes = std::uint64_t{1} << 20;
/// How much is read from one stream before the others, and other threads, get their turn.
constexpr int kReadsPerTurn = 16;
constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 48;
/// An unexpected long part of a collective blocks its stream. It is buffered after kLongestHoldUp; or, if an expected
/// message may be behind it, once nothing else has moved for kHoldUp. Not sooner: buffering takes another copy, and
/// fresh memory.
constexpr std::chrono::milliseconds kLongestHoldUp{100};
/// When a peer ends, all its streams close within this time. If only some have closed by then, the connection was
/// cut, and data in flight is lost.
constexpr std::chrono::milliseconds kAllClose{10};

std::uint64_t total_of(const std::vector<Landing>& parts) {
  std::uint64_t total = 0;
  for (const Landing& part : parts) {
    total += part.bytes;
  }
  return total;
}

/// Whether a message differs from the expected one; if so, the receive records the difference.
bool is_wrong(Incoming& message, const PieceHeader& header) {
  if (!is_checked()) {
    return false;
  }
  if (header.fingerprint != message.fingerprint) {
    message.wrong = Incoming::Wrong::Call;
  } else if (header.total != total_of(message.parts)) {
    message.wrong = Incoming::Wrong::Length;
  }
  message.wrong_length = header.total;
  return message.wrong != Incoming::Wrong::Nothing;
}

}  // namespace

bool Mailbox::progress_in(Rank from, Peer& peer) {
  bool moved = false;
  std::string why;
  for (const auto& line : peer.lines) {
    if (line->closed) {
      continue;
    }
    try {
      for (int reads = 0; reads < kReadsPerTurn && read_line(from, peer, *line); ++reads) {
        moved = true;
      }
    } catch (const Closed& closed) {
      if (line->in_head_done > 0) {
        throw Closed(fmt::format("{} in the middle of a message", closed.what()));
      }
      line->closed = true;  // the others may still hold what was sent earlier
      why = closed.what();
    }
  }
  if (!why.empty() &&
      std::ranges::all_of(peer.lines, [](const auto& line) { return line->closed; })) {
    throw Closed(why);
  }
  if (!why.empty() || peer.closing) {
    watch_closing(from, peer);
  }
  return moved;
}

/// Some streams have closed, others not. A peer that left properly is still read to its end.
void Mailbox::watch_closing(Rank from, Peer& peer) {
  const auto now = std::chrono::steady_clock::now();
  peer.closing = peer.closing.value_or(now);
  if (!peer.lost && now - *peer.closing > kAllClose) {
    report_lost(from, peer, LossKind::Cut,
                fmt::format("one of its {} connections closed", peer.lines.size()));
  }
}

/// One attempt on a line: the header, its destination, some of the body. True if anything moved.
bool Mailbox::read_line(Rank from, Peer& peer, Line& line) {
  if (line.in_head_done < sizeof(PieceHeader)) {
    return read_header(from, peer, line);
  }
  if (!line.bound) {
    return bind(peer, line);
  }
  return read_body(from, peer, line);
}

bool Mailbox::read_header(Rank from, Peer& peer, Line& line) {
  const std::span<std::byte> head = std::as_writable_bytes(std::span(&line.in_header, 1));
  const std::size_t got = line.stream->read(head.subspan(line.in_head_done));
  line.in_head_done += got;
  if (line.in_head_done == head.size()) {
    check_header(from, peer, line.in_header);
    line.bound = false;
    line.in_done = 0;
  }
  return got > 0;
}

void Mailbox::check_header(Rank from, const Peer& peer, const PieceHeader& h) {
  if (peer.checksums && h.head_sum != sum_of(h)) {
    throw Error(ErrorKind::Peer, fmt::format("data from rank {} was damaged in transit, or is of "
                                             "another version: the checksum of a header of {} "
                                             "bytes does not agree",
                                             from, sizeof(h)));
  }
  if (h.magic != kMessageMagic) {
    throw Error(ErrorKind::Peer,
                fmt::format("what rank {} sends is not of this protocol version: it begins with "
                            "{:08x}, expected {:08x}",
                            from, h.magic, kMessageMagic));
  }
  const bool sane = h.topic <= Topic::Asking && h.total <= kMaxMessageBytes &&
                    (h.topic != Topic::Asking || h.total == 0) &&
                    (h.topic != Topic::Control || h.total <= kMaxControlBytes) &&
                    h.length <= kPieceBytes && h.offset <= h.total &&
                    h.length <= h.total - h.offset;
  if (!sane) {
    throw Error(ErrorKind::Peer, fmt::format("rank {} sent an invalid header: piece of {} "
                                             "bytes at {} of {}",
                                             from, h.length, h.offset, h.total));
  }
}

/// Determines where the piece goes. False if that is not known yet.
bool Mailbox::bind(Peer& peer, Line& line) {
  const PieceHeader& h = line.in_header;
  line.target = nullptr;
  line.stored.reset();
  if (h.topic == Topic::Asking) {
    resume(peer, h.number);
  } else if (h.offset == 0) {
    if (!bind_first_piece(peer, line)) {
      return false;
    }
  } else {
    const auto it = peer.in_flight.find(h.serial);
    if (it == peer.in_flight.end()) {
      return false;  // its first piece is still on the first line
    }
    if (it->second.total != h.total || h.length > it->second.left) {
      throw Error(ErrorKind::Peer, "a piece does not fit its message");
    }
    line.target = it->second.target;
    line.stored = it->second.stored;
  }
  line.held_since.reset();
  line.bound = true;
  return true;
}

bool Mailbox::bind_first_piece(Peer& peer, Line& line) {
  const PieceHeader& h = line.in_header;
  const Key key{h.context, h.number, h.topic};
  const bool unwanted = forgotten_.contains(h.context);
  if (!unwanted) {
    const auto it = peer.waiting.find(key);
    if (it != peer.waiting.end()) {
      Incoming* message = it->second;
      peer.waiting.erase(it);
      if (is_wrong(*message, h)) {
        complete(*message);
      } else {
        line.target = message;
      }
    } else {
      const auto now = std::chrono::steady_clock::now();
      line.held_since = line.held_since.value_or(now);
      // A collective's messages are usually expected in the order in which they were sent.
      const bool stuck =
          !peer.waiting.empty() && now - std::max(*line.held_since, last_moved_) >= kHoldUp;
      if (h.topic == Topic::Collective && h.total > kShortBytes && !stuck &&
          now - *line.held_since < kLongestHoldUp) {
        held_up_.store(true, std::memory_order_relaxed);
        return false;
      }
      keep(peer, line);
    }
  }
  if (h.length < h.total) {
    const bool waits = must_be_requested(h) && line.stored;
    peer.in_flight[h.serial] = {line.target, line.stored, h.total, h.total, !waits};
    if (must_be_requested(h) && !waits) {
      ask(peer, h.serial);
    }
  }
  return true;
}

void Mailbox::keep(Peer& peer, Line& line) {
  line.stored = std::make_shared<Stored>();
  line.stored->header = line.in_header;
  if (line.in_header.topic != Topic::Control) {
    const PieceHeader& h = line.in_header;
    peer.kept.emplace(Key{h.context, h.number, h.topic}, line.stored);
  }
}

bool Mailbox::read_body(Rank from, Peer& peer, Line& line) {
  const PieceHeader& h = line.in_header;
  const std::size_t left = h.length - line.in_done;
  if (left == 0) {
    finish_piece(from, peer, line);
    return true;
  }
  // Straight to its destination if that is contiguous and nothing has to be done first; the checksum is computed there
  // when the piece is complete.
  std::span<std::byte> into;
  if (line.target != nullptr && lands_directly(*line.target)) {
    into = std::span(line.target->parts[0].data + h.offset + line.in_done, left);
  } else {
    if (line.in_room.size() < h.length) {
      line.in_room.resize(h.length);
    }
    into = std::span(line.in_room).subspan(line.in_done, left);
  }
  const std::size_t got = line.stream->read(into);
  line.in_done += got;
  if (line.target != nullptr) {
    line.target->moved.fetch_add(got, std::memory_order_relaxed);
  }
  return got > 0;
}

/// All bytes of a piece have arrived: checks them, puts them in place, completes the message with its last piece.
void Mailbox::finish_piece(Rank from, Peer& peer, Line& line) {
  const PieceHeader h = line.in_header;
  peer.pieces_in += h.topic == Topic::Control ? 0 : 1;
  const bool direct = line.target != nullptr && lands_directly(*line.target);
  const std::span<const std::byte> data =
      direct ? std::span<const std::byte>(line.target->parts[0].data + h.offset, h.length)
             : std::span<const std::byte>(line.in_room).first(h.length);
  if (peer.checksums && h.data_sum != sum_of(data)) {
    throw Error(ErrorKind::Peer, fmt::format("data from rank {} was damaged in transit: the "
                                             "checksum of {} bytes does not match",
                                             from, h.length));
  }
  if (line.target != nullptr && !direct) {
    land(*line.target, h.offset, data);
  }
  if (line.stored) {
    line.in_room.resize(h.length);
    line.stored->pieces.push_back({h.offset, std::exchange(line.in_room, {})});
  }
  bool last = h.length == h.total;
  if (!last) {
    Peer::InFlight& in_flight = peer.in_flight[h.serial];
    in_flight.left -= h.length;
    last = in_flight.left == 0;
    if (last) {
      peer.in_flight.erase(h.serial);
    }
  }
  const std::shared_ptr<Stored> stored = std::exchange(line.stored, nullptr);
  Incoming* target = std::exchange(line.target, nullptr);
  line.in_head_done = 0;
  if (last && target != nullptr) {
    complete(*target);
  } else if (last && stored && h.topic == Topic::Control) {
    controls_.push_back({from, stored->header, stored->joined()});
  } else if (last && stored) {
    stored->complete = true;
  }
}

namespace {

/// Combines received bytes with the data at the landing. An exception thrown by the user's reduction is this rank's own
/// fault: it is kept for the operation, and does not blame the sender.
void combine_part(Incoming& message, const Landing& landing, const std::byte* data) {
  const std::array<const std::byte*, 2> inputs{landing.base, data};
  const std::array<std::byte*, 1> targets{landing.data};
  const auto bytes = static_cast<std::int64_t>(landing.bytes);
  try {
    combine_many(*message.combine, inputs, targets, bytes / size_of(message.combine->dtype).count,
                 Stores::Cached);
  } catch (...) {
    message.thrown = std::current_exception();
  }
}

}  // namespace

/// Copies or combines bytes of a message into place. Combined bytes arrive in whole elements: pieces are split at
/// multiples of every element's size, and parts are whole elements.
void Mailbox::land(Incoming& message, std::uint64_t offset, std::span<const std::byte> data) const {
  std::uint64_t skip = offset;
  for (const Landing& part : message.parts) {
    if (skip >= part.bytes) {
      skip -= part.bytes;
      continue;
    }
    const std::size_t here = std::min<std::size_t>(data.size(), part.bytes - skip);
    if (here == 0) {
      break;
    }
    if (message.combine == nullptr) {
      std::memcpy(part.data + skip, data.data(), here);
    } else if (!message.thrown) {
      combine_part(message, {part.data + skip, part.base + skip, here}, data.data());
    }
    data = data.subspan(here);
    skip = 0;
  }
}

void Mailbox::complete(Incoming& message) {
  message.done.store(true, std::memory_order_release);
  completed_ = true;
}

/// Searches the buffered messages. The rest of a match goes straight to the receive.
bool Mailbox::try_stored(Peer& peer, Incoming& message) {
  const auto it = peer.kept.find(message.key);
  if (it == peer.kept.end()) {
    return false;
  }
  const std::shared_ptr<Stored> stored = it->second;
  peer.kept.erase(it);
  if (is_wrong(message, stored->header)) {
    redirect(peer, *stored, nullptr);
    message.done.store(true, std::memory_order_release);
    return true;
  }
  redirect(peer, *stored, &message);
  for (const Stored::Piece& piece : stored->pieces) {
    land(message, piece.offset, piece.data);
    message.moved.fetch_add(piece.data.size(), std::memory_order_relaxed);
  }
  if (stored->complete) {
    message.done.store(true, std::memory_order_release);
  }
  return true;
}

/// Requests the rest of a buffered message; it goes to `target` (nullptr: discarded).
void Mailbox::redirect(Peer& peer, const Stored& stored, Incoming* target) {
  for (auto& [serial, in_flight] : peer.in_flight) {
    if (in_flight.stored.get() == &stored) {
      in_flight.target = target;
      in_flight.stored.reset();
      if (!std::exchange(in_flight.comes, true)) {
        ask(peer, serial);
      }
    }
  }
  for (const auto& line : peer.lines) {
    if (line->stored.get() != &stored) {
      continue;
    }
    if (target != nullptr && lands_directly(*target)) {
      std::copy_n(line->in_room.begin(), line->in_done,
                  target->parts[0].data + line->in_header.offset);
    }
    line->target = target;
    line->stored.reset();
  }
}

}  // namespace trireme::comm
