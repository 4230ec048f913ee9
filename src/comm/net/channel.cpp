#include "comm/net/channel.h"

#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "base/check.h"
#include "trireme/error.h"

namespace trireme::comm {

using Outcome = Transfer::Outcome;

Channel::Channel(Fd socket, HandshakeOptions options) : socket_(std::move(socket)) {
  if (options.peer.empty()) {
    options.peer = peer_of(socket_);
  }
  peer_ = options.peer;
  handshake_ = std::make_unique<Handshake>(std::move(options));
}

Channel::~Channel() {
  if (tls_ != nullptr) {
    tls_->close();
  }
}

void Channel::close() noexcept {
  if (tls_ != nullptr) {
    tls_->close();
    tls_.reset();
  }
  close_politely(socket_);
}

Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;

bool Channel::advance() {
  while (!is_open()) {
    if (!flush_handshake()) {
      return false;
    }
    if (handshake_->state() != Handshake::State::Going) {
      finish_handshake();
      continue;
    }
    std::array<std::byte, 64> bytes{};
    const Transfer received = receive_some(socket_, std::span(bytes).first(handshake_->wanted()));
    if (received.outcome == Outcome::WaitRead) {
      return false;
    }
    if (received.outcome == Outcome::Closed) {
      const std::size_t taken = handshake_->taken();
      socket_.reset();
      throw ClosedInHandshake(
          fmt::format("{} closed the connection in the handshake, after {} bytes", peer_, taken));
    }
    handshake_->take(std::span(bytes).first(received.bytes));
  }
  return true;
}

/// False if some of the handshake's output has to wait. Output that cannot be sent because the
/// other side has closed counts as sent: reading will detect it.
bool Channel::flush_handshake() {
  writer_waits_to_write_ = false;
  while (!handshake_->to_send().empty()) {
    const Transfer sent = send_some(socket_, handshake_->to_send());
    if (sent.outcome == Outcome::WaitWrite) {
      // A refusal is not worth waiting for.
      writer_waits_to_write_ = handshake_->state() != Handshake::State::Refused;
      return !writer_waits_to_write_;
    }
    handshake_->sent(sent.outcome == Outcome::Moved ? sent.bytes : handshake_->to_send().size());
  }
  return true;
}

void Channel::finish_handshake() {
  if (handshake_->state() == Handshake::State::Refused) {
    close_politely(socket_);
    if (handshake_->disagrees()) {
      throw Disagreement(handshake_->problem());
    }
    throw Error(ErrorKind::Peer, handshake_->problem());
  }
  if (handshake_->options().encryption == Encryption::Tls) {
    Digest key = handshake_->session_key();
    tls_ = std::make_unique<Tls>(socket_, handshake_->options().side, key);
    OPENSSL_cleanse(key.data(), key.size());
  }
  handshake_.reset();
}

Transfer Channel::read(std::span<std::byte> into) {
  TRIREME_CHECK(is_open(), "read before the handshake is done");
  const Transfer transfer = tls_ != nullptr ? tls_->read(into) : receive_some(socket_, into);
  reader_waits_to_write_ = transfer.outcome == Outcome::WaitWrite;
  return transfer;
}

Transfer Channel::read_pieces(std::span<iovec> pieces) {
  if (tls_ != nullptr) {
    return read({static_cast<std::byte*>(pieces.front().iov_base), pieces.front().iov_len});
  }
  TRIREME_CHECK(is_open(), "read before the handshake is done");
  const Transfer transfer = receive_pieces(socket_, pieces);
  reader_waits_to_write_ = transfer.outcome == Outcome::WaitWrite;
  return transfer;
}

Transfer Channel::write(std::span<const std::byte> data) {
  TRIREME_CHECK(is_open(), "write before the handshake is done");
  const Transfer transfer = tls_ != nullptr ? tls_->write(data) : send_some(socket_, data);
  writer_waits_to_write_ = transfer.outcome == Outcome::WaitWrite;
  return transfer;
}

Transfer Channel::write_pieces(std::span<iovec> pieces) {
  if (tls_ != nullptr) {
    return write({static_cast<const std::byte*>(pieces.front().iov_base), pieces.front().iov_len});
  }
  const Transfer transfer = send_pieces(socket_, pieces);
  writer_waits_to_write_ = transfer.outcome == Outcome::WaitWrite;
  return transfer;
}

bool Channel::wants_write() const noexcept {
  return reader_waits_to_write_ || writer_waits_to_write_;
}

Fd Channel::release() && {
  TRIREME_CHECK(is_open() && tls_ == nullptr, "only a plain open channel gives its socket away");
  return std::move(socket_);
}

void open(Channel& channel, Deadline deadline) {
  const Clock::time_point begin = Clock::now();
  while (!channel.advance()) {
    const Ready ready = channel.wants_write() ? Ready::Write : Ready::Read;
    if (!wait_for(channel.socket(), ready, deadline)) {
      throw Error(ErrorKind::Peer,
                  fmt::format("{} did not finish the handshake within {}; is it a Trireme peer?",
                              channel.peer(), trireme::to_text(since(begin))));
    }
  }
}

Channel connect_channel(const Address& address, const HandshakeOptions& options,
                        Deadline deadline) {
  constexpr std::chrono::milliseconds kPause(20);
  for (;;) {
    Channel channel(connect_to(address, deadline), options);
    try {
      open(channel, deadline);
      return channel;
    } catch (const ClosedInHandshake&) {
      if (Clock::now() + kPause >= deadline) {
        throw;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

void send_all(Channel& channel, std::span<const std::byte> data, Deadline deadline) {
  const std::size_t total = data.size();
  while (!data.empty()) {
    const Transfer sent = channel.write(data);
    data = data.subspan(sent.bytes);
    if (sent.outcome == Outcome::Moved) {
      continue;
    }
    const Ready ready = sent.outcome == Outcome::WaitRead ? Ready::Read : Ready::Write;
    const bool closed = sent.outcome == Outcome::Closed;
    if (closed || !wait_for(channel.socket(), ready, deadline)) {
      throw Error(ErrorKind::System,
                  fmt::format("{} {}, with {} of {} bytes sent", channel.peer(),
                              closed ? "closed the connection" : "accepts no more data",
                              total - data.size(), total));
    }
  }
}

std::size_t receive_some(Channel& channel, std::span<std::byte> into, Deadline deadline) {
  for (;;) {
    const Transfer received = channel.read(into);
    if (received.outcome == Outcome::Moved) {
      return received.bytes;
    }
    if (received.outcome == Outcome::Closed) {
      throw Error(ErrorKind::System, fmt::format("{} closed the connection", channel.peer()));
    }
    const Ready ready = received.outcome == Outcome::WaitRead ? Ready::Read : Ready::Write;
    if (!wait_for(channel.socket(), ready, deadline)) {
      return 0;
    }
  }
}

}  // namespace trireme::comm
