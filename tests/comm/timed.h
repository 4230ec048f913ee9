// Time in tests, and bounds of it on machines that may be busy.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace trireme::test {

/// In seconds, on the clock that all processes of a host share.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// `action` returns how many seconds something took. If that is not below `bound`, tries twice more: a machine that was
/// busy once says nothing about the code. Returns the minimum.
template <class Action>
double fastest_of_three(double bound, const Action& action) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3 && fastest >= bound; ++i) {
    fastest = std::min<double>(fastest, action());
  }
  return fastest;
}

}  // namespace trireme::test
