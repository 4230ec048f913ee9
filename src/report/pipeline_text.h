// Pipelines as text. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/pipeline_report.h"

namespace trireme::report {

/// The timeline, then its cost, or the problems of the table.
[[nodiscard]] std::string pipeline_text(const simulate::PipelineReport& report,
                                        const Terminal& terminal);

/// A table: one row per schedule.
[[nodiscard]] std::string pipeline_comparison_text(const simulate::PipelineComparison& comparison,
                                                   bool color);

}  // namespace trireme::report
