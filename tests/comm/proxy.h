// Proxy: stands between a client and a TCP server, passes bytes both ways, and meddles with them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/net/socket.h"
#include "trireme/units.h"

namespace trireme::test {

/// From whom to whom. The client is who connects.
enum class Way : std::uint8_t { ToServer, ToClient };

/// A place in what passes: a byte (from 0) of the k-th connection (from 0).
struct Spot {
  std::size_t connection = 0;
  Way way = Way::ToServer;
  std::size_t byte = 0;
};

struct Meddling {
  /// How long every byte is on its way; on this connection, or on all.
  Seconds delay{0.0};
  std::optional<std::size_t> delayed{};
  /// The first so many bytes each way go one at a time, a moment apart.
  std::size_t dribble = 0;
  /// This byte arrives with one bit changed: bit 0 to 7.
  std::optional<Spot> flip{};
  unsigned bit = 0;
  /// Before this byte, that connection is closed both ways.
  std::optional<Spot> close{};
  /// All that passes is written down.
  bool record = false;
};

/// What passed, by connection and way. Any thread.
class Passed {
 public:
  void add(std::size_t connection, Way way, std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t size() const;
  /// Whether these bytes stand somewhere in a row.
  [[nodiscard]] bool contains(std::string_view words) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::size_t, Way>, std::string> bytes_;
};

/// Works on a thread of its own. Its functions may be called from any.
class Proxy {
 public:
  /// Listens when it returns. Connects to the server when somebody connects to it.
  Proxy(comm::Address server, const Meddling& meddling);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] const comm::Address& address() const { return listener_.address; }
  /// Whether the flip or the close has happened.
  [[nodiscard]] bool has_struck() const { return struck_; }
  [[nodiscard]] std::size_t connections() const { return accepted_; }
  [[nodiscard]] const Passed& passed() const { return passed_; }
  /// Closes the k-th connection both ways, as soon as possible.
  void cut(std::size_t connection) { cut_ = connection; }

 private:
  class Connection;
  void run();
  void wait() const;

  comm::Address server_;
  Meddling meddling_;
  comm::Listener listener_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Passed passed_;
  std::atomic<std::size_t> accepted_{0};
  std::atomic<std::size_t> cut_{std::numeric_limits<std::size_t>::max()};
  std::atomic<bool> struck_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< last: it uses the rest
};

}  // namespace trireme::test
