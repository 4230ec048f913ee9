// Watch: a thread that monitors the peers. It publishes this rank's own heartbeat, detects when a
// peer's heartbeat stops or its process ends, and occasionally keeps messages moving while the rank
// computes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "comm/net/fd.h"
#include "comm/transport/rank_page.h"
#include "trireme/comm.h"

namespace trireme::comm {

/// A peer to watch. `page` and `death` if it is on this host.
struct Watched {
  Rank rank = 0;
  RankPage* page = nullptr;
  int death = -1;  ///< readable when its process has ended
};

class Watch {
 public:
  struct Handlers {
    std::function<void(Rank, CommFault, const std::string&)> report;
    std::function<void()> tick;  ///< every heartbeat
  };
  Watch(RankPage* own, std::vector<Watched> peers, Seconds deadline, Handlers handlers);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct Pulse {
    std::uint64_t beats = 0;
    std::chrono::steady_clock::time_point changed{};
    bool over = false;
  };

  void run();
  void wait();
  void check_peer(std::size_t index, std::chrono::steady_clock::time_point now);
  void end(std::size_t index, CommFault fault, const std::string& text);

  RankPage* own_;
  std::vector<Watched> peers_;
  std::vector<Pulse> pulses_;
  std::chrono::nanoseconds deadline_;
  Handlers handlers_;
  Fd stop_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace trireme::comm
