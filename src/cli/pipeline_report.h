// All that `trireme pipeline` has to say about one table, computed once and shown as text, JSON,
// picture or trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "trireme/pipeline.h"
#include "trireme/trace.h"

namespace trireme::cli {

struct PipelineReport {
  PipelineTable table;
  PipelineDurations durations;  ///< of a rank's share of the model
  std::string description;      ///< "" for a table that is not from the catalogue
  std::string formula;          ///< the same, of the bubble
  std::vector<std::string> problems;
  // What follows is only there where there are no problems.
  PipelineTiming timing;
  std::vector<double> activations;         ///< by rank: peak, in micro-batches of a rank's share
  std::vector<std::vector<int>> versions;  ///< by copy and stage: most weight versions at a time
  std::int64_t messages = 0;
};

/// Verifies and times the table.
[[nodiscard]] PipelineReport make_pipeline_report(PipelineTable table,
                                                  const PipelineDurations& of_a_rank);

/// Which of its rank's stages a task is of: 0 for the first, counted copy by copy. Where a rank has
/// one stage only it is always 0.
[[nodiscard]] int chunk_of(const PipelineTable& table, const PipelineTask& task);
/// The largest number of stages that a rank has.
[[nodiscard]] int most_chunks(const PipelineTable& table);

/// For people: the timeline, then what it costs, or what is wrong.
[[nodiscard]] std::string pipeline_text(const PipelineReport& report, const Terminal& terminal);
/// One JSON object with a line break at its end.
[[nodiscard]] std::string pipeline_json(const PipelineReport& report);
/// Each rank a process with its tasks as spans, arrows for messages, and its activations as a
/// counter; one unit of time is a millisecond. Requires a table without problems.
[[nodiscard]] Trace pipeline_trace(const PipelineReport& report);

/// A schedule in a comparison: its report, or why there is none.
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
[[nodiscard]] std::string comparison_text(const PipelineComparison& comparison, bool colour);
[[nodiscard]] std::string comparison_json(const PipelineComparison& comparison);

}  // namespace trireme::cli
