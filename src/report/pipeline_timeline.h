// The timeline of a pipeline in characters.
#pragma once

#include <string>

#include "report/text_style.h"
#include "simulate/pipeline_report.h"

namespace trireme::report {

/// A line for each rank, time to the right, and a legend. Tasks are labeled where they fit the
/// width; else each column is a letter for what most of its time goes to. Past 64 ranks the first
/// and last are shown. Requires a table without problems.
[[nodiscard]] std::string timeline_text(const simulate::PipelineReport& report,
                                        const Terminal& terminal);

}  // namespace trireme::report
