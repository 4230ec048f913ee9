// Pipelines as JSON, with a line break at the end. Callable from any thread.
#pragma once

#include <string>

#include "trireme/pipeline_report.h"

namespace trireme::report {

/// One object: facts, times, and all tasks.
[[nodiscard]] std::string pipeline_json(const simulate::PipelineReport& report);

/// One object with the facts of each schedule.
[[nodiscard]] std::string pipeline_comparison_json(const simulate::PipelineComparison& comparison);

}  // namespace trireme::report
