// Heartbeat: liveness datagrams between ranks on different hosts, independent of their connections.
//
// An interrupted TCP connection retransmits ever more rarely: after an interruption of 1.6 s it may stay silent until 3
// s. So heartbeats also travel as datagrams, and the first one after an interruption shows that a rank is alive. Each
// is authenticated with the job's secret, and numbered, so that an old one cannot be replayed. If datagrams do not get
// through, heartbeats on the connections remain. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "comm/net/endpoint.h"
#include "comm/net/fd.h"
#include "comm/net/secret.h"
#include "trireme/schedule.h"

namespace trireme::comm {

class Heartbeat {
 public:
  /// Binds a socket to a free port of this host's address `bind`. Throws Error(System).
  Heartbeat(Rank me, const std::string& bind, Secret secret);

  /// The address at which peers reach this rank: "10.0.0.1:4000".
  [[nodiscard]] std::string address() const;
  /// Throws Error(Usage) if the address is invalid.
  void connect(Rank peer, const std::string& address);

  /// Sends a heartbeat. Does not wait; delivery is best-effort.
  void beat(Rank peer);
  /// Calls `heard` for each authentic heartbeat received.
  void receive(const std::function<void(Rank peer)>& heard);

 private:
  struct Datagram;
  struct Peer {
    Endpoint endpoint;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;  ///< the latest count
  };
  [[nodiscard]] Digest seal_of(const Datagram& datagram) const;
  [[nodiscard]] bool accept(const Datagram& datagram);

  Rank me_;
  Secret secret_;
  Fd socket_;
  std::map<Rank, Peer> peers_;
};

}  // namespace trireme::comm
