// Pictures of schedules and comparisons, as SVG text.
#pragma once

#include <string>

#include "trireme/algorithm_comparison.h"
#include "trireme/collective_cost.h"
#include "trireme/schedule.h"

namespace trireme::report {

struct ScheduleDrawing {
  Payload payload;
  CostModel costs;
};

/// The schedule as a diagram: ranks across, time down. Before the first and after each step, every
/// rank's blocks, colored by what they contain; arrows for the messages; next to each step its time
/// and how many ranks send or idle. Throws Error(Usage) if there are too many ranks, blocks or
/// steps for a picture.
[[nodiscard]] std::string schedule_svg(const Schedule& schedule, const ScheduleDrawing& drawing);

/// Predicted time over size, both logarithmic, one line per algorithm, the lower bound below,
/// crossovers marked.
[[nodiscard]] std::string comparison_svg(const simulate::AlgorithmComparison& comparison);

}  // namespace trireme::report
