// Synchronization strategies under stragglers, as text and as JSON. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/text_style.h"
#include "trireme/straggler.h"

namespace trireme::report {

/// A comparison and its slow workers.
struct StragglerScenario {
  std::string name{};     ///< "permanent"
  std::string meaning{};  ///< "1 of 4 workers takes 5 times as long"
  StragglerReport report{};
};

/// One line per strategy. Speed-ups are relative to the first one.
[[nodiscard]] std::string straggler_text(const StragglerScenario& scenario,
                                         const Terminal& terminal);
[[nodiscard]] std::string straggler_json(const std::vector<StragglerScenario>& scenarios);

}  // namespace trireme::report
