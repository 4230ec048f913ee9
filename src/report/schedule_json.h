// A schedule as JSON. Callable from any thread.
#pragma once

#include <functional>
#include <string_view>

#include "trireme/schedule_report.h"

namespace trireme::report {

/// Receives the next piece of a text.
using TextSink = std::function<void(std::string_view piece)>;

/// Writes one JSON object, piece by piece, so that a schedule of millions of messages needs no
/// additional memory.
void write_schedule_json(const simulate::ScheduleReport& report, const TextSink& sink);

}  // namespace trireme::report
