// The ops and values of a compiled plan, by the names that a plan's assignments use. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/compiled_plan.h"

namespace trireme::report {

/// One line per op: its kind, phase, block, stage, devices along pipe, placement and inputs.
[[nodiscard]] std::string plan_ops_text(const CompiledPlan& compiled, const Terminal& terminal);
[[nodiscard]] std::string plan_ops_json(const CompiledPlan& compiled);

/// One line per value: where it comes from, its stage, devices along pipe, type and placement.
[[nodiscard]] std::string plan_values_text(const CompiledPlan& compiled, const Terminal& terminal);
[[nodiscard]] std::string plan_values_json(const CompiledPlan& compiled);

}  // namespace trireme::report
