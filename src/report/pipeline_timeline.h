// The timeline of a pipeline in characters.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/pipeline_report.h"

namespace trireme::report {

/// A line for each rank, time to the right, and a legend. Tasks are labeled if they fit the width;
/// else each column is a letter for its main activity. With more than 64 ranks, shows the first and
/// last. Requires a table without problems.
[[nodiscard]] std::string timeline_text(const simulate::PipelineReport& report,
                                        const Terminal& terminal);

}  // namespace trireme::report
