// The result of a plan search as text and as JSON. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/planner.h"

namespace trireme::report {

struct PlanTextOptions {
  Terminal terminal{};
  bool explain = false;  ///< also the assumptions behind the times
  double tokens = 0;     ///< to train on; 0: not known
};

[[nodiscard]] std::string plan_search_text(const TransformerCost& cost, const PlanSearch& search,
                                           const PlanTextOptions& options);
/// `tokens` as in PlanTextOptions.
[[nodiscard]] std::string plan_search_json(const TransformerCost& cost, const PlanSearch& search,
                                           double tokens);

/// The parts of a step as percentages that add up to 100, one line each.
[[nodiscard]] std::string time_parts_text(const StepCost& cost);

}  // namespace trireme::report
