// TcpStore: a Store in another process, reached over TCP. One thread at a time; threads that want to wait independently
// need a TcpStore each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/net/channel.h"
#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_wire.h"

namespace trireme::comm {

struct TcpStoreOptions {
  Address server;
  Secret secret;
  Encryption encryption = Encryption::None;
  /// How long set(), insert() and add() wait for the server's answer.
  Seconds patience{30.0};
};

class TcpStore final : public Store {
 public:
  /// Connects; waits for a server that is not up yet. Throws Error(System) if there is none by the deadline,
  /// Error(Peer) if it refuses or is not a Trireme store.
  TcpStore(TcpStoreOptions options, Deadline deadline);

  // As in Store. If the server has closed or does not respond, each throws Error(System) naming its address, and so
  // does every later call: it never reconnects. A get takes a round trip; with a deadline that has passed it finds
  // nothing.
  void set(const std::string& key, std::string value) override;
  std::string insert(const std::string& key, std::string value) override;
  [[nodiscard]] std::string get(const std::string& key, Deadline deadline) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;

 private:
  /// The answer's body. Nothing at the deadline.
  [[nodiscard]] std::optional<std::string> ask(Request& request, Deadline deadline);
  void send(const Request& request, Deadline deadline);
  [[nodiscard]] std::optional<Reply> receive(std::uint32_t id, Deadline deadline);
  [[nodiscard]] std::optional<Reply> find_reply(std::uint32_t id);
  [[noreturn]] void lost(const std::string& why);
  [[noreturn]] void silent(std::string_view what, const std::string& key);

  TcpStoreOptions options_;
  Channel channel_;
  FrameReader reader_;
  std::uint32_t last_id_ = 0;
  std::string lost_;  ///< why the connection is unusable
};

}  // namespace trireme::comm
