// Moving bytes through a socket: the part of socket.h after connecting.
#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <sys/socket.h>

#include "base/bytes_moved.h"
#include "comm/net/socket.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

using Outcome = Transfer::Outcome;

/// The meaning of a failed send or recv; nullopt if it should be retried.
std::optional<Transfer> failed_transfer(int error, Outcome wait, std::string_view what) {
  switch (error) {
    case EINTR:
      return std::nullopt;
    case EAGAIN:
      return Transfer{.outcome = wait};
    case EPIPE:
    case ECONNRESET:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Transfer{.outcome = Outcome::Closed};
    default:
      throw_system(what, error);
  }
}

/// Repeats `attempt(done)` until `total` bytes are moved.
template <class Attempt>
void move_all(const Fd& socket, std::size_t total, Deadline deadline, std::string_view verb,
              const Attempt& attempt) {
  const Clock::time_point begin = Clock::now();
  std::size_t done = 0;
  while (done < total) {
    const Transfer transfer = attempt(done);
    done += transfer.bytes;
    if (transfer.outcome == Outcome::Moved) {
      continue;
    }
    if (transfer.outcome == Outcome::Closed) {
      throw Error(ErrorKind::System, fmt::format("{} closed the connection after {} of {} bytes {}",
                                                 peer_of(socket), done, total, verb));
    }
    const Ready ready = transfer.outcome == Outcome::WaitRead ? Ready::Read : Ready::Write;
    if (!wait_for(socket, ready, deadline)) {
      throw Error(ErrorKind::System,
                  fmt::format("{}: {} of {} bytes {} within {}", peer_of(socket), done, total, verb,
                              trireme::to_text(since(begin))));
    }
  }
}

/// The result of a call to receive; nullopt if it was interrupted.
std::optional<Transfer> received_transfer(ssize_t received) {
  if (received > 0) {
    return Transfer{.bytes = bytes_moved(received)};
  }
  if (received == 0) {
    return Transfer{.outcome = Outcome::Closed};
  }
  return failed_transfer(errno, Outcome::WaitRead, "cannot receive");
}

}  // namespace

Transfer send_some(const Fd& socket, std::span<const std::byte> data) {
  for (;;) {
    const ssize_t sent = ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      return {.bytes = bytes_moved(sent)};
    }
    if (const auto failed = failed_transfer(errno, Outcome::WaitWrite, "cannot send")) {
      return *failed;
    }
  }
}

Transfer send_pieces(const Fd& socket, std::span<iovec> pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  for (;;) {
    const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) {
      return {.bytes = bytes_moved(sent)};
    }
    if (const auto failed = failed_transfer(errno, Outcome::WaitWrite, "cannot send")) {
      return *failed;
    }
  }
}

Transfer receive_some(const Fd& socket, std::span<std::byte> into) {
  if (into.empty()) {
    return {};
  }
  for (;;) {
    const ssize_t received = ::recv(socket.get(), into.data(), into.size(), 0);
    if (const auto done = received_transfer(received)) {
      return *done;
    }
  }
}

Transfer receive_pieces(const Fd& socket, std::span<iovec> pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  for (;;) {
    if (const auto done = received_transfer(::recvmsg(socket.get(), &message, 0))) {
      return *done;
    }
  }
}

void send_all(const Fd& socket, std::span<const std::byte> data, Deadline deadline) {
  move_all(socket, data.size(), deadline, "sent",
           [&](std::size_t done) { return send_some(socket, data.subspan(done)); });
}

void receive_all(const Fd& socket, std::span<std::byte> into, Deadline deadline) {
  move_all(socket, into.size(), deadline, "received",
           [&](std::size_t done) { return receive_some(socket, into.subspan(done)); });
}

void close_politely(Fd& socket) noexcept {
  constexpr int kMaxReads = 16;
  std::array<std::byte, 4096> waste{};
  ::shutdown(socket.get(), SHUT_WR);
  for (int i = 0; i < kMaxReads; ++i) {
    if (::recv(socket.get(), waste.data(), waste.size(), MSG_DONTWAIT) <= 0) {
      break;
    }
  }
  socket.reset();
}

}  // namespace trireme::comm
