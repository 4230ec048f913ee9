// Loss over time under stragglers, as SVG. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/straggler_text.h"

namespace trireme::report {

/// A plot for each scenario, one below the other: a line for each strategy, named at its end; the loss that all reach
/// as a dashed line, with a dot where each strategy first reaches it.
[[nodiscard]] std::string straggler_svg(const std::vector<StragglerScenario>& scenarios);

}  // namespace trireme::report
