// Every schedule of the catalog on the same model. Callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/pipeline_report.h"
#include "trireme/pipeline.h"

namespace trireme::simulate {

/// A schedule in a comparison: its report, or why it does not fit.
struct PipelineRow {
  std::string_view name;
  std::string unfit;
  std::optional<PipelineReport> report;
};
struct PipelineComparison {
  PipelineOptions options;
  PipelineDurations durations;
  std::vector<PipelineRow> rows;
};
[[nodiscard]] PipelineComparison compare_pipelines(const PipelineOptions& options,
                                                   const PipelineDurations& of_a_rank);

}  // namespace trireme::simulate
