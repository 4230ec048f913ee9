// Canary: a thread that measures how late the machine is: it sleeps, works a little, and compares the elapsed time with
// the expected one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "comm/fault_fuzz/journal.h"

namespace trireme::fault_fuzz {

/// Measures from its construction to stop().
class Canary {
 public:
  Canary() : thread_([this] { run(); }) {}
  ~Canary() { stop(); }
  Canary(const Canary&) = delete;
  Canary& operator=(const Canary&) = delete;

  /// Returns the worst lateness, in seconds.
  double stop() {
    stopping_.store(true);
    if (thread_.joinable()) {
      thread_.join();
    }
    return worst_;
  }

 private:
  static constexpr double kSleep = 0.008;
  static constexpr double kWork = 0.0005;

  static double cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  void run() {
    while (!stopping_.load()) {
      const double begin = now();
      std::this_thread::sleep_for(std::chrono::duration<double>(kSleep));
      for (const double until = cpu_time() + kWork; cpu_time() < until;) {
      }
      worst_ = std::max(worst_, now() - begin - kSleep - kWork);
    }
  }

  std::atomic<bool> stopping_{false};
  double worst_ = 0;  ///< read after the thread has ended
  std::thread thread_;
};

}  // namespace trireme::fault_fuzz
