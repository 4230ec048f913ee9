// EventLoop: a thread that runs a state machine on a reactor: messages in, ticks, messages out. Start and stop from one
// thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ps/host/loop_counters.h"
#include "ps/net/reactor.h"
#include "ps/protocol/message.h"
#include "trireme/units.h"

namespace trireme::ps {

/// The interval between ticks of the state machine when no messages arrive.
inline constexpr Seconds kTick{0.005};

/// Microseconds on this host's monotonic clock.
[[nodiscard]] Micros micros_now();
/// Derived from the lease.
[[nodiscard]] Timing timing_for(Seconds lease);

struct EventLoopOptions {
  ReactorOptions reactor;
  std::function<void(const std::string& why)> refused{};
  std::function<void(const std::string& why)> stopped{};  ///< by an error, on its thread
};

class EventLoop {
 public:
  /// What runs on it. Each call appends what to send.
  struct Machine {
    std::function<void(const Envelope& envelope, Micros now, Outbox& out)> handle;
    std::function<void(Micros now, Outbox& out)> tick;
    /// A connection to this node was made; what was sent to it before may be lost.
    std::function<void(NodeId node, Micros now)> connected{};
    /// Before what a call returned is sent.
    std::function<void()> before_sending{};
    /// Addresses that the machine has learned.
    std::function<const std::map<NodeId, std::string>*()> addresses{};
    /// Appends what it wants to be known; the loop adds what it has counted.
    std::function<void(Micros now, std::vector<MetricSample>& samples)> metrics{};
  };

  /// Is listening when it returns.
  explicit EventLoop(const EventLoopOptions& options);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  [[nodiscard]] std::string address() const { return comm::to_text(reactor_.address()); }
  /// Before start(), or from a tick.
  void redirect(NodeId node, const std::string& address) { reactor_.redirect(node, address); }
  void start(Machine machine);
  /// Waits for the thread.
  void stop();

 private:
  void run() noexcept;
  void take(NodeId from, Message& message);
  void stop_if_rejected(NodeId peer, const std::string& why);
  void fail(std::exception_ptr failure);
  void send(Outbox& out);
  void learn_addresses();
  void report_metrics(NodeId to);

  NodeId self_;
  std::function<void(const std::string&)> refused_;
  std::function<void(const std::string&)> stopped_;
  Reactor reactor_;
  Machine machine_;
  Outbox out_;
  LoopCounters counters_;
  std::map<NodeId, std::string> known_;
  bool has_met_coordinator_ = false;
  std::exception_ptr failure_;  ///< of the machine
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace trireme::ps
