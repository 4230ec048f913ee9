#include "trireme/energy.h"

#include <algorithm>

#include <fmt/format.h>

#include "estimate/durations.h"
#include "trireme/error.h"

namespace trireme {
namespace {

void check_windows(const std::vector<TimeWindow>& supply) {
  for (std::size_t i = 0; i < supply.size(); ++i) {
    const TimeWindow& window = supply[i];
    if (window.end < window.start || (i > 0 && window.start < supply[i - 1].end)) {
      throw Error(ErrorKind::Usage,
                  fmt::format("supply window {}, {:g} s to {:g} s, ends before it starts or "
                              "overlaps the one in front of it",
                              i, window.start.count, window.end.count));
    }
  }
}

}  // namespace

Energy energy_of(Power power, Seconds time) {
  return {power.watts * time.count};
}

WindowedRun run_in_windows(const WindowedJob& job, const std::vector<TimeWindow>& supply) {
  check_windows(supply);
  WindowedRun result{.runs = {}, .remaining = job.work};
  for (const TimeWindow& window : supply) {
    if (result.finishes()) {
      break;
    }
    const double lost = result.runs.empty() ? 0 : job.restart.count;
    const double room = window.end.count - window.start.count - lost;
    if (room <= 0) {
      continue;
    }
    const double done = std::min(room, result.remaining.count);
    result.runs.push_back({window.start, {window.start.count + lost + done}});
    result.remaining.count = done == result.remaining.count ? 0 : result.remaining.count - done;
  }
  return result;
}

std::vector<TimeWindow> daily_windows(double hour, double hours, int days) {
  if (!(hour >= 0 && hours >= 0 && hour + hours <= 24)) {
    throw Error(ErrorKind::Usage,
                fmt::format("{:g} hours from {:g} o'clock do not fit into one day", hours, hour));
  }
  std::vector<TimeWindow> windows;
  for (int day = 0; day < days; ++day) {
    const double start = day * kDay + hour * kHour;
    windows.push_back({{start}, {start + hours * kHour}});
  }
  return windows;
}

}  // namespace trireme
