// The bare loop through shared memory.
#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

#include "comm/net/deadline.h"
#include "ps/tools/bench_contender.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

/// Waits for a bell, and reads it. False if the other side has closed.
bool wait_for_bell(const comm::Fd& socket) {
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  (void)::poll(&waiting, 1, comm::poll_timeout(comm::deadline_in(kBenchPatience)));
  std::array<std::byte, 64> bells{};
  return comm::receive_some(socket, bells).outcome == comm::Transfer::Outcome::Moved;
}

std::size_t read_some(SharedStream& stream, std::span<float> into, std::size_t done) {
  const std::span<std::byte> rest = std::as_writable_bytes(into).subspan(done);
  const iovec piece{rest.data(), rest.size()};
  return stream.read_pieces({&piece, 1}).bytes;
}

std::size_t write_some(SharedStream& stream, std::span<float> from, std::size_t done) {
  const std::span<std::byte> rest = std::as_writable_bytes(from).subspan(done);
  const iovec piece{rest.data(), rest.size()};
  return stream.write_pieces({&piece, 1}).bytes;
}

}  // namespace

RingEcho::RingEcho(std::size_t floats) : floats_(floats), gradient_(floats, 1.0F), answer_(floats) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    comm::throw_system("cannot make a pair of sockets", errno);
  }
  sockets_ = {comm::Fd(pair[0]), comm::Fd(pair[1])};
  server_ = SharedStream::make(sockets_[1]);
  client_ = SharedStream::open(server_->offer(), sockets_[0]);
  thread_ = std::thread([this] { run(); });
}

RingEcho::~RingEcho() {
  ::shutdown(sockets_[0].get(), SHUT_RDWR);
  thread_.join();
}

void RingEcho::run() const {
  FloatBuffer received(floats_);
  FloatBuffer sum(floats_);
  std::ranges::fill(sum.view(), 0.0F);
  const std::size_t bytes = floats_ * sizeof(float);
  for (;;) {
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t moved = read_some(*server_, received.view(), done);
      done += moved;
      if (moved == 0 && server_->sleep_until_readable() && !wait_for_bell(sockets_[1])) {
        return;
      }
    }
    for (std::size_t i = 0; i < floats_; ++i) {
      sum.view()[i] += received.view()[i];
    }
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t moved = write_some(*server_, sum.view(), done);
      done += moved;
      if (moved == 0 && server_->sleep_until_writable() && !wait_for_bell(sockets_[1])) {
        return;
      }
    }
  }
}

bool RingEcho::send_more() {
  if (sent_ == begun_) {
    return false;
  }
  const std::size_t moved = write_some(*client_, gradient_, sent_bytes_);
  sent_bytes_ += moved;
  if (sent_bytes_ == floats_ * sizeof(float)) {
    sent_bytes_ = 0;
    ++sent_;
  }
  return moved > 0;
}

bool RingEcho::receive_more() {
  const std::size_t moved = read_some(*client_, answer_, received_bytes_);
  received_bytes_ += moved;
  if (received_bytes_ == floats_ * sizeof(float)) {
    received_bytes_ = 0;
    ++done_;
  }
  return moved > 0;
}

bool RingEcho::drain_one() {
  if (done_ == begun_) {
    return false;
  }
  for (const std::size_t before = done_; done_ == before;) {
    const bool has_sent = send_more();
    const bool has_received = receive_more();
    const bool may_sleep = !has_sent && !has_received && client_->sleep_until_readable() &&
                           (sent_ == begun_ || client_->sleep_until_writable());
    if (may_sleep && !wait_for_bell(sockets_[0])) {
      throw Error(ErrorKind::Peer, "the other side of the benchmark does not answer");
    }
  }
  return true;
}

void RingEcho::step(std::size_t depth) {
  begun_ = std::max(begun_, done_ + depth);
  (void)drain_one();
}

}  // namespace trireme::ps
