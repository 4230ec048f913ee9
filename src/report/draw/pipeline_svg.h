// Pictures of pipelines, as SVG text.
#pragma once

#include <string>

#include "trireme/pipeline_report.h"

namespace trireme::report {

/// The timeline as a diagram: a lane for each rank, time to the right, a box for each task with its
/// micro-batch, colored by its work; a rank's second stage is paler. White is idle. Requires a
/// table without problems. Throws Error(Usage) if there are too many ranks or tasks for a picture.
[[nodiscard]] std::string pipeline_svg(const simulate::PipelineReport& report);

/// All schedules of the comparison below each other, on the same time scale.
[[nodiscard]] std::string pipelines_svg(const simulate::PipelineComparison& comparison);

}  // namespace trireme::report
