// TCP: ranks on different hosts, or on one if requested. Several connections to each peer, so that long messages are
// not limited by the rate of one; each connection is authenticated before anything is read from it.
#include "comm/transport/transport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes_moved.h"
#include "comm/net/channel.h"
#include "comm/net/socket.h"
#include "comm/transport/tcp/callers.h"
#include "comm/transport/tcp/connection.h"
#include "comm/transport/tcp/tls_stream.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// How much is read ahead: many short messages, but little of a long one, because it is copied twice.
constexpr std::size_t kReadAhead = std::size_t{16} << 10;

/// A connection that this rank makes to a peer, and its progress.
struct OwnCall {
  PeerAddress peer;
  Channel channel;
  Introduction me{};
  std::size_t written = 0;  ///< bytes of the introduction

  /// Advances; true once the peer has identified this rank.
  bool advance() {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&me, 1));
    if (written < bytes.size() && channel.advance()) {
      const Transfer sent = channel.write(bytes.subspan(written));
      written += sent.bytes;
      if (sent.outcome == Transfer::Outcome::Closed) {
        throw Error(ErrorKind::Peer, fmt::format("{} closed the connection", channel.peer()));
      }
    }
    return written == bytes.size();
  }
};

class TcpStream : public Stream {
 public:
  TcpStream(std::shared_ptr<Connection> connection, Rank peer)
      : connection_(std::move(connection)), peer_(peer) {
    buffer_.resize(kReadAhead);
  }

  [[nodiscard]] std::size_t write(std::span<const std::byte> head,
                                  std::span<const std::byte> body) override {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    for (const std::span<const std::byte> part : {head, body}) {
      if (!part.empty()) {
        parts[count++] = {
            const_cast<std::byte*>(part.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
            part.size()};
      }
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent =
        sendmsg(connection_->channel.socket().get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      return bytes_moved(sent);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      return 0;
    }
    throw Error(ErrorKind::Peer,
                fmt::format("the connection to rank {} broke: {}", peer_, error_text(errno)));
  }

  [[nodiscard]] std::size_t read(std::span<std::byte> into) override {
    std::size_t done = take_buffered(into);
    if (done < into.size()) {
      done += receive(into.subspan(done));
    }
    if (done == 0 && over_) {
      throw Closed(*over_);
    }
    return done;
  }

 private:
  std::size_t take_buffered(std::span<std::byte> into) {
    const std::size_t length = std::min(into.size(), end_ - begin_);
    if (length > 0) {
      std::memcpy(into.data(), buffer_.data() + begin_, length);
      begin_ += length;
    }
    return length;
  }

  /// Reads straight to its destination; what follows, to the buffer, which is empty now. Sets `over_` if nothing more
  /// will arrive.
  std::size_t receive(std::span<std::byte> into) {
    // Cleared before the check, so that no later arrival is missed. An end is reported only once, maybe with the last
    // bytes, and must be found after them.
    if (over_ || (!connection_->readable.exchange(false) && !connection_->ended.load())) {
      return 0;
    }
    std::array<iovec, 2> parts{{{into.data(), into.size()}, {buffer_.data(), buffer_.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t got = recvmsg(connection_->channel.socket().get(), &message, MSG_DONTWAIT);
    if (got > 0) {
      const std::size_t placed = std::min(into.size(), bytes_moved(got));
      begin_ = 0;
      end_ = bytes_moved(got) - placed;
      if (placed < into.size() || end_ == buffer_.size()) {
        connection_->readable.store(true);  // more will arrive at once; otherwise poll() reports it
      }
      return placed;
    }
    if (got < 0 && errno == EINTR) {
      connection_->readable.store(true);
      return 0;
    }
    if (got == 0) {
      over_ = "its connection closed";
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
      over_ = fmt::format("its connection broke: {}", error_text(errno));
    }
    return 0;
  }

  std::shared_ptr<Connection> connection_;
  Rank peer_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<std::string> over_;  ///< why nothing more will arrive
};

Listener listen_at(const std::string& bind) {
  try {
    return listen_on({bind, 0});
  } catch (const Error& error) {
    throw Error(
        error.kind(),
        fmt::format("{}; WorldOptions::bind must be an address of this machine", error.what()));
  }
}

class TcpTransport : public Transport {
 public:
  explicit TcpTransport(const NetworkParts& parts)
      : parts_(parts),
        listener_(listen_at(parts.options.bind)),
        poll_(epoll_create1(EPOLL_CLOEXEC)),
        event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!poll_.valid() || !event_.valid()) {
      throw_system("cannot wait for connections", errno);
    }
    watch(event_.get(), EPOLLIN, nullptr);
    if (!parts_.secret) {
      throw Error(ErrorKind::Usage,
                  "connections between ranks need the job's secret; join with JoinOptions::secret, "
                  "or give all ranks the same TRIREME_SECRET");
    }
  }

  [[nodiscard]] TransportKind kind() const override { return TransportKind::Tcp; }
  [[nodiscard]] std::string address() const override { return to_text(listener_.address); }
  [[nodiscard]] bool needs_poll() const override { return true; }

  /// Edge-triggered: a thread that is about to wait has just read and written all it could, so anything that becomes
  /// possible afterwards is an edge.
  void poll(std::chrono::milliseconds at_most) override {
    std::array<epoll_event, 64> events{};
    const int count = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(at_most.count()));
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[i];
      if (event.data.ptr != nullptr) {
        Connection& connection = *static_cast<Connection*>(event.data.ptr);
        if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
          connection.ended.store(true);
        }
        connection.readable.store(true);
      } else {
        eventfd_t number = 0;
        eventfd_read(event_.get(), &number);
      }
    }
  }
  void wake() override { eventfd_write(event_.get(), 1); }

  /// Lower ranks connect to higher ones. All connections are made before any is accepted: a listening socket queues
  /// them meanwhile.
  void connect(const std::vector<PeerAddress>& peers, Deadline deadline) override {
    std::size_t expected = 0;
    std::vector<OwnCall> calls;
    for (const PeerAddress& peer : peers) {
      if (peer.rank < parts_.rank) {
        expected += parts_.options.connections;
        continue;
      }
      for (int k = 0; k < parts_.options.connections; ++k) {
        calls.push_back({peer, dial(peer, deadline), {parts_.rank, k}});
      }
    }
    exchange(calls, expected, deadline);
    for (OwnCall& call : calls) {
      add(call.peer.rank, call.me.connection, std::move(call.channel));
    }
    listener_.socket.reset();
  }

  [[nodiscard]] std::vector<std::unique_ptr<Stream>> streams(Rank peer) override {
    std::vector<std::unique_ptr<Stream>> out;
    for (const auto& [number, connection] : connections_[peer]) {
      if (parts_.options.encrypt) {
        out.push_back(make_tls_stream(connection, peer));
      } else {
        out.push_back(std::make_unique<TcpStream>(connection, peer));
      }
    }
    return out;
  }

 private:
  /// An empty peer name means its address.
  [[nodiscard]] HandshakeOptions options_for(Side side, std::string peer = {}) const {
    return {.side = side,
            .purpose = Purpose::Data,
            .secret = *parts_.secret,
            .encryption = encryption_of(parts_.options),
            .peer = std::move(peer)};
  }

  void add(Rank peer, std::int32_t number, Channel channel) {
    auto connection = std::make_shared<Connection>(std::move(channel));
    watch(connection->channel.socket().get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
          connection.get());
    connections_[peer][number] = std::move(connection);
  }

  void watch(int fd, std::uint32_t events, Connection* connection) {
    epoll_event event{.events = events, .data = {.ptr = connection}};
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw_system("cannot watch a connection", errno);
    }
  }

  [[nodiscard]] Channel dial(const PeerAddress& peer, Deadline deadline) const {
    return {connect_to(parse_address(peer.address), deadline),
            options_for(Side::Client, fmt::format("rank {} at {}", peer.rank, peer.address))};
  }

  /// Alternates between accepting and connecting, because two ranks may be waiting for each other.
  void exchange(std::vector<OwnCall>& calls, std::size_t expected, Deadline deadline) {
    Callers callers(listener_.socket, options_for(Side::Server));
    std::size_t introduced = 0;
    std::size_t open_calls = 0;
    while (introduced < expected || open_calls < calls.size()) {
      open_calls =
          std::ranges::count_if(calls, [&](OwnCall& call) { return advance(call, deadline); });
      for (Caller& caller : callers.advance()) {
        introduced += accept(std::move(caller)) ? 1 : 0;
      }
      if (passed(deadline)) {
        throw Error(ErrorKind::Peer,
                    fmt::format("rank {}: {} of {} connections to other ranks were made in time",
                                parts_.rank, introduced + open_calls, expected + calls.size()));
      }
      constexpr Seconds kPause{0.001};
      if (callers.is_full()) {  // a waiting caller makes the listener readable
        std::this_thread::sleep_for(duration(kPause));
      } else {
        (void)wait_for(listener_.socket, Ready::Read, std::min(deadline, deadline_in(kPause)));
      }
    }
  }

  /// Advances a connection; true once the peer has identified this rank. A peer that runs out of descriptors may drop
  /// it during the handshake: then it is retried.
  [[nodiscard]] bool advance(OwnCall& call, Deadline deadline) const {
    try {
      return call.advance();
    } catch (const ClosedInHandshake&) {
      if (passed(deadline)) {
        throw;
      }
      call.channel = dial(call.peer, deadline);
      return false;
    }
  }

  /// False if this rank does not expect such a connection.
  [[nodiscard]] bool accept(Caller caller) {
    const Introduction who = caller.who;
    if (who.rank < 0 || who.rank >= parts_.rank || who.connection < 0 ||
        who.connection >= parts_.options.connections ||
        connections_[who.rank].contains(who.connection)) {
      return false;
    }
    add(who.rank, who.connection, std::move(caller.channel));
    return true;
  }

  NetworkParts parts_;
  Listener listener_;
  Fd poll_;
  Fd event_;
  std::map<Rank, std::map<std::int32_t, std::shared_ptr<Connection>>> connections_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const NetworkParts& parts) {
  return std::make_unique<TcpTransport>(parts);
}

}  // namespace trireme::comm
