// Times as the trace event format writes them: decimal microseconds. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/units.h"

namespace trireme {

/// Appends `time` in microseconds. Multiplying a double by 1e6 rounds, so this shifts the decimal
/// point of the shortest text of the seconds instead: 1e-9 s is "0.001", and parse_microseconds
/// gives back the very same double. Requires a finite time.
void append_microseconds(std::string& out, Seconds time);

/// Reads a JSON number of microseconds; nothing if it is no number or does not fit a double.
[[nodiscard]] std::optional<Seconds> parse_microseconds(std::string_view text);

}  // namespace trireme
