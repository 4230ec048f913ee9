// Proxy: sits between a client and a TCP server, forwards bytes in both directions, and injects
// faults.
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

/// From whom to whom. The client is the one that connects.
enum class Way : std::uint8_t { ToServer, ToClient };

/// A position in the traffic: a byte (from 0) of the k-th connection (from 0).
struct TrafficSpot {
  std::size_t connection = 0;
  Way way = Way::ToServer;
  std::size_t byte = 0;
};

struct Meddling {
  /// The latency of every byte; on this connection, or on all.
  Seconds delay{0.0};
  std::optional<std::size_t> delayed{};
  /// The first bytes in each direction are sent one at a time, with a short pause in between.
  std::size_t dribble = 0;
  /// This byte arrives with one bit flipped: bit 0 to 7.
  std::optional<TrafficSpot> flip{};
  unsigned bit = 0;
  /// Before this byte, that connection is closed in both directions.
  std::optional<TrafficSpot> close{};
  /// Records all traffic.
  bool record = false;
};

/// The recorded traffic, by connection and direction. Callable from any thread.
class Passed {
 public:
  void add(std::size_t connection, Way way, std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t size() const;
  /// Whether these bytes occur consecutively.
  [[nodiscard]] bool contains(std::string_view words) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::size_t, Way>, std::string> bytes_;
};

/// Runs on its own thread. Its functions may be called from any.
class Proxy {
 public:
  /// Is listening when it returns. Connects to the server when a client connects to it.
  Proxy(comm::Address server, const Meddling& meddling);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] const comm::Address& address() const { return listener_.address; }
  /// Whether the flip or the close has happened.
  [[nodiscard]] bool has_struck() const { return struck_; }
  [[nodiscard]] std::size_t connections() const { return accepted_; }
  [[nodiscard]] const Passed& passed() const { return passed_; }
  /// Closes the k-th connection in both directions, as soon as possible.
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
