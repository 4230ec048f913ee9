// StoreLoop: the event loop of TcpStoreServer. One thread and epoll; no client can block it. run() belongs to one
// thread; stop(), address() and refusals() may be called from any.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "comm/net/channel.h"
#include "comm/net/socket.h"
#include "comm/rendezvous/store_server_options.h"
#include "comm/rendezvous/store_service.h"
#include "comm/rendezvous/store_wire.h"

namespace trireme::comm {

/// Each connection has a Channel, a FrameReader for input and a buffer of pending output. StoreService decides what to
/// answer.
class StoreLoop {
 public:
  /// Is listening when it returns. Throws Error(System).
  explicit StoreLoop(const TcpStoreServerOptions& options);

  /// Serves until stop(); then closes everything.
  void run() noexcept;
  void stop() noexcept;
  [[nodiscard]] const Address& address() const { return listener_.address; }
  [[nodiscard]] std::vector<std::string> refusals() const;

 private:
  struct Client {
    Channel channel;
    Clock::time_point since;
    FrameReader reader;
    std::string out;
    std::size_t out_sent = 0;
    std::uint32_t watched = 0;
    bool has_asked = false;

    [[nodiscard]] std::size_t backlog() const { return out.size() - out_sent; }
    /// Sends what can be sent now; false if the client has left.
    [[nodiscard]] bool flush();
  };

  void watch(int operation, const Fd& fd, std::uint64_t about, std::uint32_t events);
  [[nodiscard]] Deadline next_deadline() const;
  [[nodiscard]] bool serve_events();

  void accept_clients();
  [[nodiscard]] bool has_room();
  /// When the oldest client still in the handshake connected. Requires that there is one.
  [[nodiscard]] Clock::time_point oldest_unauthenticated() const;
  void rest_until(Deadline deadline);
  void add_client(Fd socket);
  void drop_late_clients();

  void serve(std::uint64_t name);
  [[nodiscard]] bool progress(std::uint64_t name, Client& client);
  [[nodiscard]] bool answer_frames(std::uint64_t name, Client& client);
  void answer(std::uint64_t name, Client& client, const std::string& frame);
  void deliver(std::uint64_t asker, const std::vector<Answer>& answers);
  void watch_for_more(std::uint64_t name, Client& client);

  void flush_all() noexcept;
  void forget(std::uint64_t name);
  void refuse(std::uint64_t name, Client& client, const std::string& why);
  void refuse_all(const std::string& why);
  void drop(std::uint64_t name, std::string_view why);
  void note(std::string refusal);

  const TcpStoreServerOptions options_;
  Listener listener_;
  Fd epoll_;
  Fd stop_;
  bool listening_ = true;
  Deadline listen_again_{};      ///< if not listening_
  bool waits_for_room_ = false;  ///< not listening_ because of unauthenticated clients
  std::size_t most_unauthenticated_ = most_unauthenticated();
  std::vector<std::byte> chunk_;
  std::uint64_t next_name_;
  std::map<std::uint64_t, Client> clients_;
  std::deque<std::uint64_t> unauthenticated_;  ///< clients in the handshake, oldest first
  StoreService service_;
  std::string disagreement_;  ///< between two ranks of the job; from then on no client is served
  mutable Mutex refusals_mutex_;
  std::deque<std::string> refusals_ TRIREME_GUARDED_BY(refusals_mutex_);
};

}  // namespace trireme::comm
