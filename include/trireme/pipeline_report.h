// Static analysis of a pipeline table: timeline, idle share, memory, problems, and the same as a predicted Trace; and
// all schedules of the catalog compared. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/pipeline.h"
#include "trireme/trace.h"

namespace trireme::simulate {

struct PipelineReport {
  PipelineTable table;
  PipelineDurations durations;  ///< of a rank's share of the model
  std::string description;      ///< "" for a table that is not from the catalog
  std::string formula;          ///< the same, of the bubble
  std::vector<std::string> problems;
  // Set only if there are no problems.
  PipelineTiming timing;
  std::vector<double> activations;         ///< by rank: peak, in micro-batches of a rank's share
  std::vector<std::vector<int>> versions;  ///< by copy and stage: most weight versions at a time
  std::int64_t messages = 0;
};

/// Verifies and times the table.
[[nodiscard]] PipelineReport make_pipeline_report(PipelineTable table,
                                                  const PipelineDurations& of_a_rank);

/// The same for a schedule of the catalog, with its description and formula. Requires that it fits the
/// options.
[[nodiscard]] PipelineReport make_pipeline_report(const PipelineSchedule& schedule,
                                                  const PipelineOptions& options,
                                                  const PipelineDurations& of_a_rank);

/// Which of its rank's stages a task belongs to: 0 for the first, counted copy by copy. Always 0 if a rank has only one
/// stage.
[[nodiscard]] int chunk_of(const PipelineTable& table, const PipelineTask& task);
/// The largest number of stages that a rank has.
[[nodiscard]] int max_chunks(const PipelineTable& table);

/// The timed table as a trace. Each rank is a process with its tasks as spans, arrows for messages, and its activations
/// as a counter; one unit of time is a millisecond. Requires a table without problems.
[[nodiscard]] Trace pipeline_trace(const PipelineReport& report);

/// A schedule in a comparison: its report, or why it does not fit.
struct PipelineRow {
  std::string_view name;
  std::vector<std::string> problems;
  std::optional<PipelineReport> report;
};
struct PipelineComparison {
  PipelineOptions options;
  PipelineDurations durations;
  std::vector<PipelineRow> rows;
};
/// Every schedule of the catalog on the same model.
[[nodiscard]] PipelineComparison compare_pipelines(const PipelineOptions& options,
                                                   const PipelineDurations& of_a_rank);

}  // namespace trireme::simulate
