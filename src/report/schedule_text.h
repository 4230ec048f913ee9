// A schedule for people. Any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "simulate/schedule_report.h"

namespace trireme::report {

/// The steps with the ranks across, then what they cost. Large schedules are shown in part.
[[nodiscard]] std::string schedule_text(const simulate::ScheduleReport& report,
                                        const Terminal& terminal);

}  // namespace trireme::report
