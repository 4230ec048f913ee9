#include "report/op_plan_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {
namespace {

std::string placement_text(const ValueAssignment& row) {
  std::string text;
  for (const AxisPlacement& one : row.axes) {
    if (one.sharded) {
      text += fmt::format("{}{} along {}", text.empty() ? "" : ", ", to_text(one), one.axis);
    }
  }
  return text.empty() ? "replicated" : text;
}

std::string certainty(const StrategyChoice& choice) {
  return choice.cost <= choice.bound * (1 + 1e-9)
             ? "no choice is faster"
             : fmt::format("at most {:.2f} % slower than the best",
                           100 * (choice.cost / choice.bound - 1));
}

}  // namespace

std::string op_plan_text(const ShownOpPlan& shown, const Terminal& terminal) {
  const OpPlan& found = shown.plan;
  std::string text = fmt::format(
      "{} as {} on {}, every value placed\n"
      "  step         {} without overlap ({})\n"
      "  replicated   {} if every device computed everything\n"
      "  memory       {} per device\n\n",
      shown.model, to_text(found.plan.mesh), shown.cluster, to_text(Seconds{found.choice.cost}),
      certainty(found.choice), to_text(Seconds{found.replicated_seconds}),
      bytes_text(found.choice.memory));
  int width = 0;
  for (const ValueAssignment& row : found.plan.values) {
    width = std::max(width, display_width(row.selector));
  }
  text +=
      styled(fmt::format("  {}  placement", padded("value", width)), Style::Bold, terminal.color) +
      "\n";
  for (const ValueAssignment& row : found.plan.values) {
    text += fmt::format("  {}  {}\n", padded(row.selector, width), placement_text(row));
  }
  return text;
}

std::string op_plan_json(const ShownOpPlan& shown) {
  const OpPlan& found = shown.plan;
  Json json{{"model", shown.model},
            {"cluster", shown.cluster},
            {"mesh", to_text(found.plan.mesh)},
            {"step_seconds", found.choice.cost},
            {"bound_seconds", found.choice.bound},
            {"replicated_seconds", found.replicated_seconds},
            {"memory_bytes", found.choice.memory},
            {"values", Json::array()}};
  for (const ValueAssignment& row : found.plan.values) {
    Json axes = Json::object();
    for (const AxisPlacement& one : row.axes) {
      axes[one.axis] = to_text(one);
    }
    json["values"].push_back({{"name", row.selector}, {"axes", std::move(axes)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
