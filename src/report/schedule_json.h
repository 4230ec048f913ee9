// A schedule as JSON. Any thread.
#pragma once

#include <functional>
#include <string_view>

#include "simulate/schedule_report.h"

namespace trireme::report {

/// Takes the next piece of a text.
using TextSink = std::function<void(std::string_view piece)>;

/// Writes one JSON object, piece by piece: a schedule of millions of messages needs no more memory.
void write_schedule_json(const simulate::ScheduleReport& report, const TextSink& sink);

}  // namespace trireme::report
