// The panels of the report page, in their order. Callable from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "report/page/html.h"
#include "trireme/run_record.h"

namespace trireme::report {

using Runs = std::span<const RunRecord>;

[[nodiscard]] Element overview_panel(Runs runs);
[[nodiscard]] Element loss_panel(Runs runs);
[[nodiscard]] Element throughput_panel(Runs runs);
[[nodiscard]] Element utilization_panel(Runs runs);
[[nodiscard]] Element waterfall_panel(Runs runs);
[[nodiscard]] Element memory_panel(Runs runs);
[[nodiscard]] Element timeline_panel(Runs runs);
[[nodiscard]] Element idle_panel(Runs runs);
[[nodiscard]] Element collectives_panel(Runs runs);
[[nodiscard]] Element prediction_panel(Runs runs);
[[nodiscard]] Element plan_panel(Runs runs);
[[nodiscard]] Element settings_panel(Runs runs);
[[nodiscard]] Element environment_panel(Runs runs);

// Shared by panels.

/// The last part of the folder's path.
[[nodiscard]] std::string name_of(const RunRecord& run);
/// The class of a run's color.
[[nodiscard]] std::string color_of(std::size_t run);
/// The step with the median time; nullptr if there are no steps.
[[nodiscard]] const RecordedStep* median_step(const RunRecord& run);
/// Adds `draw(number, run)` for each run, side by side under their names if there are several.
void add_each(Element& panel, Runs runs,
              const std::function<Element(std::size_t, const RunRecord&)>& draw);

inline constexpr std::string_view kNoTrace =
    "Not recorded: there is no trace.json. A run writes it in its third step.";
inline constexpr std::string_view kNoSteps = "No steps yet: metrics.jsonl is empty.";

}  // namespace trireme::report
