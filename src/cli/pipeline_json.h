// The facts of a pipeline report as JSON, for one report and for comparisons.
#pragma once

#include "base/json.h"
#include "cli/pipeline_report.h"

namespace trireme::cli {

/// Everything but the tasks.
[[nodiscard]] Json pipeline_facts(const PipelineReport& report);

}  // namespace trireme::cli
