// A timed schedule as a predicted Trace.
#pragma once

#include "simulate/schedule_report.h"
#include "trireme/trace.h"

namespace trireme::simulate {

/// Each rank is a process with a track for its sends and one for its receives, each message a span
/// on both with an arrow between; ranks run in lock step, so a rank that is early shows a gap.
[[nodiscard]] Trace predicted_trace(const ScheduleReport& report);

}  // namespace trireme::simulate
