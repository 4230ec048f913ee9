#include "comm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // XXH3_64bits by the widest registers that the processor has
#endif

#include "comm/checks.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// "TRI" and the version of the frame format.
constexpr std::uint32_t kMagic = 0x01495254;
constexpr std::uint32_t kPieceBytes = 256U << 10;
/// Messages up to this long are kept at once if nobody waits for them.
constexpr std::uint64_t kKeepBytes = 64U << 10;
constexpr std::uint64_t kMostControlBytes = std::uint64_t{1} << 20;
/// What is read of one stream before the others, and other threads, get their turn.
constexpr int kReadsPerTurn = 16;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;
/// A longer one that nobody waits for holds its stream up. It is kept too once nothing else has moved
/// for this long (what is waited for may stand behind it) or, whatever moves, after kLongestHoldUp.
constexpr std::chrono::milliseconds kHoldUp{1};
constexpr std::chrono::milliseconds kLongestHoldUp{100};
/// When a peer ends, all its streams close, if not in the same instant. One that stays the only one
/// for longer was cut, and what went into it is lost.
constexpr std::chrono::milliseconds kAllClose{10};

std::uint32_t sum_of(std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(XXH3_64bits(data.data(), data.size()));
}

std::uint32_t sum_of(const PieceHeader& header) {
  return sum_of(std::as_bytes(std::span(&header, 1)).first(offsetof(PieceHeader, head_sum)));
}

std::uint64_t total_of(const std::vector<std::span<const std::byte>>& parts) {
  std::uint64_t total = 0;
  for (const auto& part : parts) {
    total += part.size();
  }
  return total;
}

std::uint64_t total_of(const std::vector<Landing>& parts) {
  std::uint64_t total = 0;
  for (const Landing& part : parts) {
    total += part.bytes;
  }
  return total;
}

/// Whether its bytes are read straight to their place.
bool lands_directly(const Incoming& message) {
  return message.combine == nullptr && message.parts.size() == 1;
}

/// Whether what came is not what was expected; then the receive is told in what.
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

/// A message that came before anyone waited for it.
struct Mailbox::Stored {
  PieceHeader header;
  std::vector<std::byte> data;
  std::uint64_t arrived = 0;
  Incoming* claimed = nullptr;  ///< by this receive, as soon as it is complete
  bool discard = false;
};

/// A message on its way out, as far as it got.
struct Mailbox::Sending {
  Outgoing* message = nullptr;  ///< nothing: it was cancelled, or is our own copy
  std::vector<std::byte> copy;  ///< data of its own
  std::vector<std::span<const std::byte>> parts;
  PieceHeader header;
  std::uint64_t cut = 0;         ///< bytes already given to lines
  std::uint32_t pieces_out = 0;  ///< pieces given to lines and not yet written
};

/// One stream and what it is in the middle of.
struct Mailbox::Line {
  std::unique_ptr<Stream> stream;
  // Out: the piece being written.
  std::shared_ptr<Sending> sending;
  PieceHeader out_header;
  std::vector<std::byte> out_copy;  ///< of the rest of a cancelled message's piece
  std::span<const std::byte> out_body;
  std::vector<std::byte> out_gathered;  ///< a piece that lies in several parts
  std::size_t out_done = 0;
  // In: the piece being read.
  PieceHeader in_header;
  std::size_t in_head_done = 0;
  bool bound = false;
  Incoming* target = nullptr;
  std::shared_ptr<Stored> stored;  ///< instead of a target; neither: thrown away
  std::size_t in_done = 0;         ///< bytes of the body
  std::vector<std::byte> in_room;  ///< a piece that is checked or combined first
  std::optional<std::chrono::steady_clock::time_point> held_since;
  bool closed = false;
};

struct Mailbox::Peer {
  std::vector<std::unique_ptr<Line>> lines;
  std::deque<std::shared_ptr<Sending>> queue;
  std::list<Incoming*> waiting;
  std::list<std::shared_ptr<Stored>> kept;
  /// Messages of several pieces that are under way, by serial.
  struct UnderWay {
    Incoming* target = nullptr;
    std::shared_ptr<Stored> stored;
    std::uint64_t total = 0;
    std::uint64_t left = 0;
  };
  std::map<std::uint32_t, UnderWay> under_way;
  std::uint32_t next_serial = 0;
  bool checksums = false;
  /// When the first of its streams closed.
  std::optional<std::chrono::steady_clock::time_point> closing;
  bool told = false;          ///< that it is lost
  bool cannot_write = false;  ///< it may still have sent something before it went
  bool broken = false;
};

Mailbox::Mailbox(Rank ranks, Handlers handlers) : handlers_(std::move(handlers)) {
  for (Rank r = 0; r < ranks; ++r) {
    peers_.push_back(std::make_unique<Peer>());
  }
}
Mailbox::~Mailbox() = default;

void Mailbox::connect(Rank peer, std::vector<std::unique_ptr<Stream>> streams, bool checksums) {
  const std::lock_guard lock(mutex_);
  Peer& p = *peers_[static_cast<std::size_t>(peer)];
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

void Mailbox::enqueue(Rank to, const Key& key, std::shared_ptr<Sending> sending, Urgency urgency) {
  PieceHeader& header = sending->header;
  header.magic = kMagic;
  header.topic = key.topic;
  header.context = key.context;
  header.number = key.number;
  header.total = total_of(sending->parts);
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[static_cast<std::size_t>(to)];
  header.serial = peer.next_serial++;
  if (urgency == Urgency::Urgent) {
    peer.queue.push_front(std::move(sending));
  } else {
    peer.queue.push_back(std::move(sending));
  }
  (void)push_out(peer);
}

bool Mailbox::push_out(Peer& peer) {
  if (peer.broken || peer.cannot_write) {
    return false;
  }
  try {
    return progress_out(peer);
  } catch (const Error&) {
    peer.cannot_write = true;  // what it sent before is still read; that shows how it ended
    return false;
  }
}

void Mailbox::receive(Incoming& message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[static_cast<std::size_t>(message.from)];
  if (!try_stored(peer, message)) {
    peer.waiting.push_back(&message);
  }
}

/// Looks among what was kept.
bool Mailbox::try_stored(Peer& peer, Incoming& message) {
  for (auto it = peer.kept.begin(); it != peer.kept.end(); ++it) {
    Stored& stored = **it;
    const Key key{stored.header.context, stored.header.number, stored.header.topic};
    if (stored.claimed != nullptr || stored.discard || !(key == message.key)) {
      continue;
    }
    if (is_wrong(message, stored.header)) {
      message.done.store(true, std::memory_order_release);
      return true;
    }
    if (stored.arrived < stored.header.total) {
      stored.claimed = &message;
      return true;
    }
    land(message, 0, stored.data);
    message.done.store(true, std::memory_order_release);
    peer.kept.erase(it);
    return true;
  }
  return false;
}

void Mailbox::cancel(Outgoing& message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *peers_[static_cast<std::size_t>(message.to)];
  const auto is_it = [&](const std::shared_ptr<Sending>& s) { return s->message == &message; };
  std::erase_if(peer.queue, is_it);
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
  Peer& peer = *peers_[static_cast<std::size_t>(message.from)];
  peer.waiting.remove(&message);
  for (const auto& stored : peer.kept) {
    if (stored->claimed == &message) {
      stored->claimed = nullptr;
      stored->discard = true;
    }
  }
  for (auto& [serial, under_way] : peer.under_way) {
    under_way.target = under_way.target == &message ? nullptr : under_way.target;
  }
  for (const auto& line : peer.lines) {
    if (line->target != &message) {
      continue;
    }
    if (lands_directly(message)) {  // the rest is read, and checked, beside what has come
      const std::byte* begin = message.parts[0].data + line->in_header.offset;
      line->in_room.resize(std::max<std::size_t>(line->in_room.size(), line->in_header.length));
      std::copy_n(begin, line->in_done, line->in_room.begin());
    }
    line->target = nullptr;
  }
}

void Mailbox::forget(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  forgotten_.insert(context);
  for (const auto& peer : peers_) {
    for (const auto& stored : peer->kept) {
      stored->discard = stored->discard || stored->header.context == context;
    }
    std::erase_if(peer->kept, [](const std::shared_ptr<Stored>& s) {
      return s->discard && s->arrived == s->header.total;
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
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = *peers_[r];
    if (!peer.broken && !peer.lines.empty()) {
      progress_peer(static_cast<Rank>(r), peer, moved);
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
    break_peer(rank, peer, false, closed.what());
  } catch (const std::exception& error) {
    break_peer(rank, peer, true, error.what());
  }
}

/// Brings control messages, and then losses, to their handlers. One thread at a time, so that they
/// keep their order; a thread that finds another at it leaves its own to that one.
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
    }
    if (controls.empty() && lost.empty()) {
      return;
    }
    for (const ControlMessage& message : controls) {
      handlers_.control(message.from, message.header, message.data);
    }
    for (const Loss& loss : lost) {
      handlers_.lost(loss.rank, loss.damaged, loss.why);
    }
  }
}

void Mailbox::break_peer(Rank from, Peer& peer, bool damaged, const std::string& why) {
  peer.broken = true;
  tell_lost(from, peer, damaged, why);
}

void Mailbox::tell_lost(Rank from, Peer& peer, bool damaged, const std::string& why) {
  if (!std::exchange(peer.told, true)) {
    lost_.push_back({from, damaged, why});  // told after the messages that came before the end
  }
}

// Out. The first piece of a message always goes by the first line; so short messages keep their order,
// and a receiver knows a message before its other pieces can come.

bool Mailbox::progress_out(Peer& peer) {
  bool moved = false;
  for (std::size_t k = 0; k < peer.lines.size(); ++k) {
    Line& line = *peer.lines[k];
    while (line.sending || take_next(peer, line, k == 0)) {
      moved = write_some(line) || moved;
      if (line.sending) {
        break;  // the stream is full
      }
    }
  }
  return moved;
}

/// Gives the line its next piece. False if there is none that it may carry.
bool Mailbox::take_next(Peer& peer, Line& line, bool is_first_line) {
  if (peer.queue.empty() || (!is_first_line && peer.queue.front()->cut == 0)) {
    return false;
  }
  line.sending = peer.queue.front();
  prepare_piece(line);
  if (peer.checksums) {
    line.out_header.data_sum = sum_of(line.out_body);
    line.out_header.head_sum = sum_of(line.out_header);
  }
  if (line.sending->cut == line.sending->header.total) {
    peer.queue.pop_front();
  }
  return true;
}

/// Cuts the next piece off the line's message.
void Mailbox::prepare_piece(Line& line) {
  Sending& sending = *line.sending;
  const std::uint64_t length =
      std::min<std::uint64_t>(kPieceBytes, sending.header.total - sending.cut);
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

/// Writes what the stream takes; ends the piece when all is out. True if bytes went.
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

// In.

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
      line->closed = true;  // the others may still hold what was sent before
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

/// Some streams have closed, others not. A peer that said goodbye is read to its end all the same.
void Mailbox::watch_closing(Rank from, Peer& peer) {
  const auto now = std::chrono::steady_clock::now();
  peer.closing = peer.closing.value_or(now);
  if (!peer.told && now - *peer.closing > kAllClose) {
    tell_lost(from, peer, false,
              fmt::format("one of its {} connections closed", peer.lines.size()));
  }
}

/// One go at a line: the header, whom it is for, some of the body. True if something moved.
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
    throw Error(ErrorKind::Peer, fmt::format("data from rank {} was damaged on the way, or is of "
                                             "another version: the checksum of a header of {} "
                                             "bytes does not agree",
                                             from, sizeof(h)));
  }
  if (h.magic != kMagic) {
    throw Error(ErrorKind::Peer,
                fmt::format("what rank {} sends is not of this protocol version: it begins with "
                            "{:08x}, expected {:08x}",
                            from, h.magic, kMagic));
  }
  const bool sane = h.topic <= Topic::Control && h.total <= kMostBytes &&
                    (h.topic != Topic::Control || h.total <= kMostControlBytes) &&
                    h.length <= kPieceBytes && h.offset <= h.total &&
                    h.length <= h.total - h.offset;
  if (!sane) {
    throw Error(ErrorKind::Peer, fmt::format("rank {} sent a header that cannot be: piece of {} "
                                             "bytes at {} of {}",
                                             from, h.length, h.offset, h.total));
  }
}

/// Finds out where the piece goes. False if that is not known yet.
bool Mailbox::bind(Peer& peer, Line& line) {
  const PieceHeader& h = line.in_header;
  line.target = nullptr;
  line.stored.reset();
  if (h.offset == 0) {
    if (!bind_first_piece(peer, line)) {
      return false;
    }
  } else {
    const auto it = peer.under_way.find(h.serial);
    if (it == peer.under_way.end()) {
      return false;  // its first piece is still on the first line
    }
    if (it->second.total != h.total || h.length > it->second.left) {
      throw Error(ErrorKind::Peer, "a piece does not fit the message that it says it is of");
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
    const auto it =
        std::ranges::find_if(peer.waiting, [&](const Incoming* m) { return m->key == key; });
    if (it != peer.waiting.end()) {
      Incoming* message = *it;
      peer.waiting.erase(it);
      if (is_wrong(*message, h)) {
        complete(*message);
      } else {
        line.target = message;
      }
    } else {
      const auto now = std::chrono::steady_clock::now();
      line.held_since = line.held_since.value_or(now);
      const bool others_move = now - std::max(*line.held_since, last_moved_) < kHoldUp &&
                               now - *line.held_since < kLongestHoldUp;
      if (h.topic != Topic::Control && h.total > kKeepBytes && others_move) {
        held_up_.store(true, std::memory_order_relaxed);
        return false;
      }
      keep(peer, line);
    }
  }
  if (h.length < h.total) {
    peer.under_way[h.serial] = {line.target, line.stored, h.total, h.total};
  }
  return true;
}

void Mailbox::keep(Peer& peer, Line& line) {
  line.stored = std::make_shared<Stored>();
  line.stored->header = line.in_header;
  if (line.in_header.topic != Topic::Control) {
    peer.kept.push_back(line.stored);
  }
}

bool Mailbox::read_body(Rank from, Peer& peer, Line& line) {
  const PieceHeader& h = line.in_header;
  const std::size_t left = h.length - line.in_done;
  if (left == 0) {
    finish_piece(from, peer, line);
    return true;
  }
  // Straight to its place where that is one place and nothing has to be done first; the checksum is
  // computed there when the piece is complete.
  std::span<std::byte> into;
  if (line.stored) {
    // Grows as data comes, so that a damaged header cannot ask for memory.
    std::vector<std::byte>& data = line.stored->data;
    data.resize(std::max<std::size_t>(data.size(), h.offset + h.length));
    into = std::span(data).subspan(h.offset + line.in_done, left);
  } else {
    if (line.in_room.size() < h.length) {
      line.in_room.resize(h.length);
    }
    into = std::span(line.in_room).subspan(line.in_done, left);
  }
  if (line.target != nullptr && lands_directly(*line.target)) {
    into = std::span(line.target->parts[0].data + h.offset + line.in_done, left);
  }
  const std::size_t got = line.stream->read(into);
  line.in_done += got;
  if (line.target != nullptr) {
    line.target->moved.fetch_add(got, std::memory_order_relaxed);
  }
  return got > 0;
}

/// All bytes of a piece are here: check them, bring them to their place, end the message with its
/// last piece.
void Mailbox::finish_piece(Rank from, Peer& peer, Line& line) {
  const PieceHeader h = line.in_header;
  const bool direct =
      line.target != nullptr && line.target->combine == nullptr && line.target->parts.size() == 1;
  std::span<const std::byte> data = line.stored || direct
                                        ? std::span<const std::byte>{}
                                        : std::span<const std::byte>(line.in_room).first(h.length);
  if (line.stored) {
    data = std::span<const std::byte>(line.stored->data).subspan(h.offset, h.length);
  } else if (direct) {
    data = std::span<const std::byte>(line.target->parts[0].data + h.offset, h.length);
  }
  if (peer.checksums && h.data_sum != sum_of(data)) {
    throw Error(ErrorKind::Peer, fmt::format("data from rank {} was damaged on the way: the "
                                             "checksum of {} bytes does not agree",
                                             from, h.length));
  }
  if (line.target != nullptr && !direct) {
    land(*line.target, h.offset, data);
  }
  bool last = h.length == h.total;
  if (!last) {
    Peer::UnderWay& under_way = peer.under_way[h.serial];
    under_way.left -= h.length;
    last = under_way.left == 0;
    if (last) {
      peer.under_way.erase(h.serial);
    }
  }
  if (line.stored) {
    line.stored->arrived += h.length;
  }
  const std::shared_ptr<Stored> stored = line.stored;
  Incoming* target = line.target;
  line.in_head_done = 0;
  line.target = nullptr;
  line.stored.reset();
  if (!last) {
    return;
  }
  if (target != nullptr) {
    complete(*target);
  } else if (stored && h.topic == Topic::Control) {
    controls_.push_back({from, stored->header, std::move(stored->data)});
  } else if (stored && stored->claimed != nullptr) {
    land(*stored->claimed, 0, stored->data);
    complete(*stored->claimed);
    peer.kept.remove(stored);
  } else if (stored && stored->discard) {
    peer.kept.remove(stored);
  }
}

/// Copies or combines bytes of a message to where they belong. Combined bytes come in whole elements:
/// pieces are cut at multiples of every element's size, and parts are whole elements.
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
    } else {
      const std::array<const std::byte*, 2> inputs{part.base + skip, data.data()};
      const std::array<std::byte*, 1> targets{part.data + skip};
      combine_many(*message.combine, inputs, targets,
                   static_cast<std::int64_t>(here) / size_of(message.combine->dtype).count,
                   Stores::Cached);
    }
    data = data.subspan(here);
    skip = 0;
  }
}

void Mailbox::complete(Incoming& message) {
  message.done.store(true, std::memory_order_release);
  completed_ = true;
}

}  // namespace trireme::comm
