#include "ps/net/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "ps/protocol/bytes.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

using Outcome = comm::Transfer::Outcome;

constexpr std::size_t kBuffer = std::size_t{64} << 10;
/// Ahead of a large message only its header and fields are read into the buffer, so that its floats are not copied.
constexpr std::size_t kShortRead = 128;
constexpr std::size_t kLargeFloats = std::size_t{8}
                                     << 10;  ///< bytes from which a message counts as large
constexpr std::size_t kMaxSegment = std::size_t{256} << 10;
/// What one connection may receive before others get their turn.
constexpr std::size_t kTurn = std::size_t{8} << 20;
constexpr std::size_t kMaxPooled = 32;

}  // namespace

std::shared_ptr<FloatBuffer> BufferPool::take(std::size_t floats) {
  for (const std::shared_ptr<FloatBuffer>& buffer : buffers_) {
    if (buffer.use_count() == 1 && buffer->size() >= floats && buffer->size() / 4 <= floats) {
      return buffer;
    }
  }
  auto fresh = std::make_shared<FloatBuffer>(floats);
  if (buffers_.size() < kMaxPooled) {
    buffers_.push_back(fresh);
  } else {
    const auto unused = std::ranges::find_if(
        buffers_, [](const std::shared_ptr<FloatBuffer>& b) { return b.use_count() == 1; });
    if (unused != buffers_.end()) {
      *unused = fresh;
    }
  }
  return fresh;
}

Connection::Connection(comm::Channel channel, BufferPool& pool, const Options& options)
    : channel_(std::move(channel)),
      pool_(pool),
      options_(options),
      buffer_(kBuffer),
      read_ahead_(kBuffer) {}

bool Connection::advance() {
  return channel_.is_open() || channel_.advance();
}

// --- Receiving.

comm::Transfer Connection::read_pieces(std::span<iovec> pieces) {
  return reads_shared_ ? stream_->read_pieces(pieces) : channel_.read_pieces(pieces);
}

/// With shared memory, what arrives on the socket only wakes this side up, or shows that the other has closed.
void Connection::read_bells() {
  std::array<std::byte, 256> bells{};
  comm::Transfer transfer;
  do {
    transfer = channel_.read(bells);
  } while (transfer.outcome == Outcome::Moved && transfer.bytes == bells.size());
  is_closed_ = is_closed_ || transfer.outcome == Outcome::Closed;
}

bool Connection::has_whole_frame() const {
  const std::size_t bytes = end_ - begin_;
  if (header_ || bytes < kHeaderBytes) {
    return false;
  }
  const FrameHeader header =
      parse_header(std::span(buffer_).subspan(begin_).first<kHeaderBytes>(), received_frames_);
  return bytes - kHeaderBytes >= header.field_bytes + header.floats * sizeof(float);
}

/// Whether answers might have to be copied for lack of room: the caller has to read some first. Only the acceptor waits,
/// so the two never wait for each other.
bool Connection::is_congested() const {
  return is_acceptor_ && writes_shared() && !stream_->is_half_free();
}

bool Connection::has_more() {
  if (is_congested() && !is_closed_ && stream_->sleep_until_half_free()) {
    return false;  // a bell announces room
  }
  const bool may_sleep = !reads_shared_ || is_closed_ || stream_->sleep_until_readable();
  return !may_sleep || has_whole_frame() || (channel_.is_open() && channel_.has_buffered());
}

/// False if nothing was read: the other side has closed, or there is nothing yet.
bool Connection::read_some(std::span<std::byte> into, std::size_t& got) {
  std::array<iovec, 1> piece{iovec{into.data(), into.size()}};
  const comm::Transfer transfer = read_pieces(piece);
  got = transfer.outcome == Outcome::Moved ? transfer.bytes : 0;
  is_closed_ = is_closed_ || transfer.outcome == Outcome::Closed;
  may_have_more_ = got == into.size();
  return got > 0;
}

bool Connection::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  std::size_t got = 0;
  const std::size_t room = std::min(buffer_.size() - end_, read_ahead_);
  const bool has_read = read_some(std::span(buffer_).subspan(end_, room), got);
  end_ += got;
  return has_read;
}

bool Connection::read_header() {
  while (end_ - begin_ < kHeaderBytes) {
    if (!fill()) {
      return false;
    }
  }
  header_ =
      parse_header(std::span(buffer_).subspan(begin_).first<kHeaderBytes>(), received_frames_);
  ++received_frames_;
  begin_ += kHeaderBytes;
  fields_.clear();
  float_bytes_ = 0;
  const bool is_large = header_->floats * sizeof(float) >= kLargeFloats;
  read_ahead_ = is_large ? kShortRead : kBuffer;
  return true;
}

/// Fields grow with what has arrived, so that a header alone does not make this side allocate.
bool Connection::read_fields() {
  while (fields_.size() < header_->field_bytes) {
    if (begin_ == end_ && !fill()) {
      return false;
    }
    const std::size_t count = std::min(header_->field_bytes - fields_.size(), end_ - begin_);
    fields_.append(reinterpret_cast<const char*>(buffer_.data() + begin_), count);
    begin_ += count;
  }
  return true;
}

/// Straight where they are wanted, if that is known, and else into a buffer of the pool.
void Connection::choose_target() {
  const std::size_t count = header_->floats;
  if (place_ && count * sizeof(float) >= kLargeFloats) {
    target_ = place_(header_->kind, fields_, count);
  }
  if (target_.size() != count) {
    floats_ = pool_.take(count);
    target_ = floats_->view().first(count);
  }
}

void Connection::leave_target() {
  if (target_.empty() || floats_) {
    return;
  }
  floats_ = pool_.take(target_.size());
  std::memcpy(floats_->view().data(), target_.data(), float_bytes_);
  target_ = floats_->view().first(target_.size());
}

void Connection::release(std::span<const float> memory) {
  if (target_.data() == memory.data()) {
    leave_target();
  }
}

bool Connection::read_floats() {
  const std::size_t total = header_->floats * sizeof(float);
  if (total > 0 && target_.empty()) {
    choose_target();
  }
  while (float_bytes_ < total) {
    const std::span<std::byte> rest = std::as_writable_bytes(target_).subspan(float_bytes_);
    std::size_t count = std::min(rest.size(), end_ - begin_);
    if (count > 0) {
      std::memcpy(rest.data(), buffer_.data() + begin_, count);
      begin_ += count;
    } else if (!read_ahead_of(rest, count)) {
      return false;
    }
    float_bytes_ += count;
  }
  return true;
}

/// Reads the rest of a message, and in the same system call the header and fields of the next one. Requires an empty
/// buffer.
bool Connection::read_ahead_of(std::span<std::byte> rest, std::size_t& got) {
  begin_ = end_ = 0;
  if (reads_shared_) {
    stream_->expect_more();
  }
  std::array<iovec, 2> pieces{iovec{rest.data(), rest.size()}, iovec{buffer_.data(), kShortRead}};
  const comm::Transfer transfer = read_pieces(pieces);
  const std::size_t bytes = transfer.outcome == Outcome::Moved ? transfer.bytes : 0;
  is_closed_ = is_closed_ || transfer.outcome == Outcome::Closed;
  may_have_more_ = bytes == rest.size() + kShortRead;
  got = std::min(bytes, rest.size());
  end_ = bytes - got;
  return bytes > 0;
}

void Connection::deliver(const Deliver& deliver) {
  const FrameHeader header = *std::exchange(header_, std::nullopt);
  const std::span<float> target = std::exchange(target_, {});
  Values floats = floats_ ? Values::share(std::exchange(floats_, nullptr), header.floats)
                          : Values::borrow(target);
  if (header.kind >= kFirstControlKind) {
    return take_control(header.kind);
  }
  if (!peer_) {
    throw Error(ErrorKind::Input, "malformed frame: the first one is not a hello");
  }
  Message message = decode(header.kind, fields_, std::move(floats));
  deliver(*peer_, message);
}

// --- Agreeing on shared memory.

namespace {

template <class T>
T fields_of(std::string_view fields) {
  T value;
  ByteReader reader(fields);
  reader(value);
  reader.finish();
  return value;
}

template <class T>
std::string to_fields(const T& value) {
  std::string fields;
  ByteWriter writer(fields);
  writer(value);
  return fields;
}

}  // namespace

void Connection::take_control(std::uint8_t kind) {
  switch (kind) {
    case kHelloKind:
      return take_hello();
    case kOfferKind:
      return take_offer();
    default:
      return take_switch();
  }
}

/// A server that restarted may have left its old port to this one.
void Connection::take_hello() {
  const auto hello = fields_of<Hello>(fields_);
  require_frame(received_frames_ == 1 && !peer_, "a second hello");
  require_frame(hello.to == options_.self, fmt::format("it is for {}, but this is {}",
                                                       to_text(hello.to), to_text(options_.self)));
  peer_ = hello.from;
  if (options_.host == 0 || hello.host != options_.host) {
    return;
  }
  try {
    stream_ = SharedStream::make(channel_.socket());
  } catch (const Error&) {
    return;  // memory or descriptors are short: the socket will do
  }
  is_acceptor_ = true;
  enqueue(kOfferKind, to_fields(stream_->offer()), {});
}

void Connection::take_offer() {
  const auto offer = fields_of<SharedMemoryOffer>(fields_);
  require_frame(options_.host != 0 && peer_ && !stream_, "an unsolicited offer");
  try {
    stream_ = SharedStream::open(offer, channel_.socket());
  } catch (const Error&) {
    // not accessible from here: the socket will do
  }
  send_switch(stream_ != nullptr);
}

void Connection::take_switch() {
  const auto request = fields_of<Switch>(fields_);
  require_frame(stream_ && !reads_shared_, "a switch to shared memory that was not offered");
  if (!request.is_accepted) {
    stream_.reset();
    return;
  }
  reads_shared_ = true;
  begin_ = end_ = 0;  // bells
  if (left_on_socket_ == kNeverSwitched) {
    stream_->close_file();
    send_switch(true);
  }
}

void Connection::send_switch(bool is_accepted) {
  enqueue(kSwitchKind, to_fields(Switch{is_accepted}), {});
  if (is_accepted) {
    left_on_socket_ = backlog_;
  }
}

bool Connection::receive(const Deliver& sink) {
  if (reads_shared_) {
    read_bells();
    (void)flush();
  }
  may_have_more_ = true;
  for (std::size_t taken = 0; taken < kTurn && !is_congested();) {
    const bool has_frame = (header_ || read_header()) && read_fields() && read_floats();
    if (!has_frame) {
      return !is_closed_;
    }
    taken += kHeaderBytes + fields_.size() + header_->floats * sizeof(float);
    deliver(sink);
    if (begin_ == end_ && !may_have_more_ && !reads_shared_ && !channel_.has_buffered()) {
      return true;  // the socket is empty; asking again would only cost a system call
    }
  }
  return !is_closed_;
}

// --- Sending.

void Connection::send_hello() {
  enqueue(kHelloKind, to_fields(Hello{options_.self, *peer_, options_.host}), {});
}

void Connection::send(const Message& message) {
  const Encoded encoded = encode(message);
  enqueue(encoded.kind, encoded.fields, encoded.floats);
}

void Connection::enqueue(std::uint8_t kind, const std::string& fields, const Values& floats) {
  const HeaderBytes header = to_bytes({.kind = kind,
                                       .field_bytes = static_cast<std::uint32_t>(fields.size()),
                                       .floats = static_cast<std::uint32_t>(floats.size()),
                                       .number = sent_frames_++});
  const std::size_t float_bytes = floats.view().size_bytes();
  const bool is_large = float_bytes >= kLargeFloats;
  const bool can_append = !queue_.empty() && queue_.back().floats.size() == 0 &&
                          queue_.back().bytes.size() < kMaxSegment;
  Segment& segment = can_append ? queue_.back() : queue_.emplace_back();
  segment.bytes.append(reinterpret_cast<const char*>(header.data()), header.size());
  segment.bytes += fields;
  backlog_ += header.size() + fields.size() + float_bytes;
  if (is_large) {
    segment.floats = floats;
    if (is_open()) {
      (void)flush();  // a closed connection shows again when it is read
    }
    retain_rest();
  } else if (float_bytes > 0) {
    segment.bytes.append(reinterpret_cast<const char*>(floats.view().data()), float_bytes);
  }
}

/// What could not be sent must not refer to borrowed floats: copies the rest of the last segment.
void Connection::retain_rest() {
  if (queue_.empty() || queue_.back().floats.size() == 0) {
    return;
  }
  Segment& last = queue_.back();
  if (last.sent <= last.bytes.size() || last.floats.is_lasting()) {
    last.floats.retain();
    return;
  }
  const std::size_t done = last.sent - last.bytes.size();
  last.floats = Values::copy(last.floats.view().subspan(done / sizeof(float)));
  last.bytes.clear();
  last.sent = done % sizeof(float);
}

void Connection::detach() {
  for (Segment& segment : queue_) {
    segment.floats.detach();
  }
  leave_target();
}

bool Connection::flush() {
  return !is_closed_ && (!is_open() || write_queue());
}

void Connection::sent(std::size_t bytes) {
  backlog_ -= bytes;
  left_on_socket_ -= left_on_socket_ == kNeverSwitched || left_on_socket_ == 0 ? 0 : bytes;
  while (bytes > 0) {
    Segment& first = queue_.front();
    const std::size_t now = std::min(bytes, first.size() - first.sent);
    first.sent += now;
    bytes -= now;
    if (first.sent == first.size()) {
      queue_.pop_front();
    }
  }
}

/// What is to be sent next, as far as it goes the same way; returns how many pieces.
std::size_t Connection::next_pieces(std::span<iovec> pieces) const {
  std::size_t count = 0;
  std::size_t left = writes_shared() ? backlog_ : left_on_socket_;
  const auto add = [&](const void* data, std::size_t bytes) {
    bytes = std::min(bytes, left);
    left -= bytes;
    if (bytes > 0) {
      // An iovec is for reading too; this one is only read from.
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
      pieces[count++] = {const_cast<void*>(data), bytes};
    }
  };
  for (auto at = queue_.begin(); at != queue_.end() && count + 2 <= pieces.size(); ++at) {
    const std::size_t skipped = std::min(at->sent, at->bytes.size());
    const std::span<const std::byte> floats =
        std::as_bytes(at->floats.view()).subspan(at->sent - skipped);
    add(at->bytes.data() + skipped, at->bytes.size() - skipped);
    add(floats.data(), floats.size());
  }
  return count;
}

/// Several pieces in one system call, or one after the other where they have to be encrypted.
bool Connection::write_queue() {
  while (!queue_.empty()) {
    std::array<iovec, 16> pieces{};
    const std::span<iovec> next = std::span(pieces).first(next_pieces(pieces));
    const comm::Transfer transfer =
        writes_shared() ? stream_->write_pieces(next) : channel_.write_pieces(next);
    is_closed_ = is_closed_ || transfer.outcome == Outcome::Closed;
    if (transfer.outcome == Outcome::Moved) {
      sent(transfer.bytes);
    } else if (!writes_shared() || stream_->sleep_until_writable()) {
      return !is_closed_;
    }
  }
  return true;
}

}  // namespace trireme::ps
