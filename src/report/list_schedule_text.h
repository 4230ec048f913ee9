// List schedules of a step's ops on more and more devices, as a table and as JSON. Callable from any thread.
#pragma once

#include <span>
#include <string>

#include "report/text_style.h"
#include "trireme/list_schedule.h"

namespace trireme::report {

/// The first schedule is for one device.
[[nodiscard]] std::string list_schedules_text(std::string_view model,
                                              std::span<const simulate::ListSchedule> schedules,
                                              const Terminal& terminal);
[[nodiscard]] std::string list_schedules_json(std::string_view model,
                                              std::span<const simulate::ListSchedule> schedules);

}  // namespace trireme::report
