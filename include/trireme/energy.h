// Energy of a training job, and its timetable if power is available only in certain windows. Pure; any thread.
#pragma once

#include <vector>

#include "trireme/cluster.h"
#include "trireme/units.h"

namespace trireme {

/// Joules: 1 kWh is 3.6e6.
struct Energy {
  double joules = 0;
  [[nodiscard]] double kilowatt_hours() const noexcept { return joules / 3.6e6; }
};

/// Power times time. 1 kW for an hour is 1 kWh.
[[nodiscard]] Energy energy_of(Power power, Seconds time);

/// A period from `start` to `end`.
struct TimeWindow {
  Seconds start{};
  Seconds end{};
  friend bool operator==(const TimeWindow&, const TimeWindow&) = default;
};

struct WindowedJob {
  Seconds work{};  ///< running time in total
  /// Time lost at the start of each window but the first, for example to load a checkpoint.
  Seconds restart{};
};

struct WindowedRun {
  std::vector<TimeWindow> runs{};  ///< when the job runs, restarts included; each inside one window
  Seconds remaining{};             ///< unfinished work; 0 if the job finishes
  [[nodiscard]] bool finishes() const noexcept { return remaining.count <= 0; }
};

/// Runs the job as early as the supply windows allow. Windows too short for a restart are skipped. Throws Error(Usage)
/// if a window ends before it starts, or starts before the previous one ends.
[[nodiscard]] WindowedRun run_in_windows(const WindowedJob& job,
                                         const std::vector<TimeWindow>& supply);

/// The same window every day, from `hour` for `hours`, for `days` days; time 0 is midnight. Throws Error(Usage) unless
/// it fits into one day.
[[nodiscard]] std::vector<TimeWindow> daily_windows(double hour, double hours, int days);

}  // namespace trireme
