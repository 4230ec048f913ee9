// A compiled plan for people and as JSON: what each rank communicates, needs in memory, and how long it idles. Callable
// from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/compiled_plan.h"

namespace trireme::report {

struct CompiledPlanTextOptions {
  Terminal terminal{};
  std::string model{};
  int rank = 0;  ///< whose communication to list
};

[[nodiscard]] std::string compiled_plan_text(const CompiledPlan& compiled,
                                             const CompiledPlanTextOptions& options);
[[nodiscard]] std::string compiled_plan_json(const CompiledPlan& compiled,
                                             const std::string& model);

}  // namespace trireme::report
