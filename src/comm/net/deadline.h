// Deadlines: every wait in this folder ends at one. Callable from any thread.
#pragma once

#include <algorithm>
#include <chrono>

#include "trireme/units.h"

namespace trireme::comm {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// In units of the clock.
[[nodiscard]] inline Clock::duration duration(Seconds seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds.count));
}

/// That long from now; a century at most, so that infinity means "forever".
[[nodiscard]] inline Deadline deadline_in(Seconds patience) {
  constexpr double kCentury = 3.2e9;
  return Clock::now() + duration({std::clamp(patience.count, 0.0, kCentury)});
}

[[nodiscard]] inline bool passed(Deadline deadline) {
  return Clock::now() >= deadline;
}

/// For messages: the time elapsed since then.
[[nodiscard]] inline Seconds since(Clock::time_point begin) {
  return {std::chrono::duration<double>(Clock::now() - begin).count()};
}

/// The timeout for poll(): milliseconds until the deadline, rounded up; an hour at most, so the
/// caller checks the clock again.
[[nodiscard]] inline int poll_timeout(Deadline deadline) {
  constexpr std::chrono::milliseconds kMax = std::chrono::hours(1);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kMax).count());
}

}  // namespace trireme::comm
