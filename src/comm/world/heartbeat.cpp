#include "comm/world/heartbeat.h"

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::comm {

/// The wire format.
struct Heartbeat::Datagram {
  static constexpr std::uint32_t kMagic = 0x42495254;  ///< "TRIB"
  std::uint32_t magic = kMagic;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t padding = 0;
  std::uint64_t count = 0;
  Digest seal{};  ///< of the fields above
};

Heartbeat::Heartbeat(Rank me, const std::string& bind, Secret secret)
    : me_(me), secret_(std::move(secret)) {
  const Resolved resolved = resolve({.host = bind, .port = 0});
  if (resolved.endpoints.empty()) {
    throw Error(ErrorKind::System, fmt::format("cannot bind to {}: {}", bind, resolved.problem));
  }
  const Endpoint& endpoint = resolved.endpoints.front();
  socket_ = Fd(socket(endpoint.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid() || ::bind(socket_.get(), endpoint.get(), endpoint.length) != 0) {
    throw_system(fmt::format("cannot receive datagrams at {}", bind), errno);
  }
}

std::string Heartbeat::address() const {
  Endpoint endpoint;
  if (getsockname(socket_.get(), endpoint.get(), &endpoint.length) != 0) {
    throw_system("cannot query the address of a socket", errno);
  }
  return to_text(to_address(endpoint));
}

void Heartbeat::connect(Rank peer, const std::string& address) {
  const Resolved resolved = resolve(parse_address(address));
  if (!resolved.endpoints.empty()) {
    peers_[peer] = Peer{.endpoint = resolved.endpoints.front()};
  }
}

Digest Heartbeat::seal_of(const Datagram& datagram) const {
  const auto sealed = std::as_bytes(std::span(&datagram, 1)).first(offsetof(Datagram, seal));
  return hmac_sha256(secret_.bytes(), {bytes_of("heartbeat"), sealed});
}

void Heartbeat::beat(Rank peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) {
    return;
  }
  Datagram datagram{.from = me_, .to = peer, .count = ++it->second.sent};
  datagram.seal = seal_of(datagram);
  (void)sendto(socket_.get(), &datagram, sizeof(datagram), MSG_DONTWAIT | MSG_NOSIGNAL,
               it->second.endpoint.get(), it->second.endpoint.length);
}

/// Whether it is from a peer, for this rank, authentic and new.
bool Heartbeat::accept(const Datagram& datagram) {
  const auto it = peers_.find(datagram.from);
  if (it == peers_.end() || datagram.magic != Datagram::kMagic || datagram.to != me_ ||
      datagram.count <= it->second.received || !same(datagram.seal, seal_of(datagram))) {
    return false;
  }
  it->second.received = datagram.count;
  return true;
}

void Heartbeat::receive(const std::function<void(Rank peer)>& heard) {
  constexpr int kMax = 1000;  // a flood of foreign datagrams does not block this rank
  for (int i = 0; i < kMax; ++i) {
    Datagram datagram;
    const ssize_t length = recv(socket_.get(), &datagram, sizeof(datagram), MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return;
    }
    if (length == sizeof(datagram) && accept(datagram)) {
      heard(datagram.from);
    }
  }
}

}  // namespace trireme::comm
