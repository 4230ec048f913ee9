// Times in the trace event format: decimal microseconds. Callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/units.h"

namespace trireme {

/// Appends `time` in microseconds. Multiplying a double by 1e6 rounds, so this shifts the decimal
/// point of the shortest text of the seconds instead: 1e-9 s is "0.001", and parse_microseconds
/// returns exactly the same double. Requires a finite time.
void append_microseconds(std::string& out, Seconds time);

/// Parses a JSON number of microseconds; nothing if it is not a number or does not fit a double.
[[nodiscard]] std::optional<Seconds> parse_microseconds(std::string_view text);

}  // namespace trireme
