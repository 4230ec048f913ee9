// The plan that was chosen for a training run, in words. Callable from any thread.
#pragma once

#include <string>

#include "trireme/plan_choice.h"

namespace trireme::report {

/// The plan, its predicted time, the runner-up, and how many were compared; two lines.
[[nodiscard]] std::string plan_choice_text(const PlanChoice& choice);

}  // namespace trireme::report
