// Time in tests, and bounds of it on machines that may be busy.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include <sys/types.h>

#include "shared.h"

namespace trireme::test {

/// In seconds, on the clock that all processes of a host share.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Measures while it exists how long this machine keeps a process that computes from running: well below a millisecond
/// on a quiet machine, some 50 ms under a load of 20 on two cores.
class SchedulingGap {
 public:
  /// Forks.
  SchedulingGap();
  ~SchedulingGap();
  SchedulingGap(const SchedulingGap&) = delete;
  SchedulingGap& operator=(const SchedulingGap&) = delete;

  /// In seconds.
  [[nodiscard]] double longest() const;

 private:
  struct Progress {
    std::atomic<double> longest{0};
    std::atomic<bool> done = false;
  };

  Shared<Progress> shared_;
  pid_t measuring_;
};

/// `action` returns how many seconds something took. If that is not below `bound`, tries twice more: a machine that was
/// busy once says nothing about the code. Returns the minimum, less what a busy machine adds: noticing a failure takes
/// several processes a few turns each, and every turn waits for the other processes of the machine.
template <class Action>
double fastest_of_three(double bound, const Action& action) {
  constexpr double kTurns = 4;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3 && fastest >= bound; ++i) {
    const SchedulingGap gap;
    const double seconds = action();
    fastest = std::min(fastest, seconds - kTurns * gap.longest());
  }
  return fastest;
}

}  // namespace trireme::test
