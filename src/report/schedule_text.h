// A schedule as text. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/schedule_report.h"

namespace trireme::report {

/// The steps with the ranks across, then their cost. Large schedules are abbreviated.
[[nodiscard]] std::string schedule_text(const simulate::ScheduleReport& report,
                                        const Terminal& terminal);

}  // namespace trireme::report
