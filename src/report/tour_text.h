// The textbook example of ring all-reduce, for `trireme tour`. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/comparison_json.h"

namespace trireme::report {

/// The values of three workers before and after each step: three chunks of two numbers each.
[[nodiscard]] std::vector<ReplayState> ring_states();

/// "  step 1, add   A [ 5 13 | …]   B […]   C […]", a line.
[[nodiscard]] std::string state_line(const ReplayState& state);

}  // namespace trireme::report
