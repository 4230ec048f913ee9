// Transport: a connection type between ranks. Each has its own folder, with the same file names.
//
// A world publishes every rank's address through the rendezvous, then connects the pairs. A transport whose ranks see
// one another's memory has a HostMemory; collectives then need no messages.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/net/deadline.h"
#include "comm/net/handshake.h"
#include "comm/net/secret.h"
#include "comm/transport/memory.h"
#include "comm/transport/rank_page.h"
#include "comm/wire/stream.h"
#include "trireme/comm.h"
#include "trireme/schedule.h"

namespace trireme::comm {

[[nodiscard]] inline Encryption encryption_of(const WorldOptions& options) {
  return options.encrypt ? Encryption::Tls : Encryption::None;
}

struct PeerAddress {
  Rank rank = 0;
  std::string address{};
};

class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] virtual TransportKind kind() const = 0;
  /// The address at which peers reach this rank.
  [[nodiscard]] virtual std::string address() const = 0;
  /// Connects to these peers, which do the same. Throws Error(System) or Error(Peer) at the deadline.
  virtual void connect(const std::vector<PeerAddress>& peers, Deadline deadline) = 0;
  /// The streams to a connected peer. Called once per peer.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Stream>> streams(Rank peer) = 0;
  /// Nothing if peers do not see one another's memory.
  [[nodiscard]] virtual HostMemory* memory() { return nullptr; }
  /// The page of a connected peer, or of this rank; only with memory().
  [[nodiscard]] virtual RankPage* page(Rank /*rank*/) { return nullptr; }
  /// A descriptor that polls readable when the peer's process has ended, or -1 if it cannot end on its own.
  [[nodiscard]] virtual int death_watch(Rank /*peer*/) { return -1; }
  /// Whether the streams require polling the operating system. Then poll() does, waiting at most this long for a
  /// change, and wake() ends a wait. Callable from any thread.
  [[nodiscard]] virtual bool needs_poll() const { return false; }
  virtual void poll(std::chrono::milliseconds /*at_most*/) {}
  virtual void wake() {}
};

/// Where ranks that are threads of one process find one another.
class InProcessHub;
[[nodiscard]] std::shared_ptr<InProcessHub> make_in_process_hub(Rank ranks);
[[nodiscard]] std::unique_ptr<Transport> make_inprocess_transport(std::shared_ptr<InProcessHub> hub,
                                                                  Rank rank);
[[nodiscard]] std::unique_ptr<Transport> make_shm_transport(Rank rank, Rank ranks);

/// The parts of a network transport.
struct NetworkParts {
  Rank rank = 0;
  Rank ranks = 1;
  WorldOptions options{};
  std::optional<Secret> secret{};
};
[[nodiscard]] std::unique_ptr<Transport> make_tcp_transport(const NetworkParts& parts);
/// Throws Error(Usage) if this build does not include it.
[[nodiscard]] std::unique_ptr<Transport> make_ucx_transport(const NetworkParts& parts);
[[nodiscard]] bool has_ucx();
/// See restore_signal_handlers().
void restore_ucx_signal_handlers();

}  // namespace trireme::comm
