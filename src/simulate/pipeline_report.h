// The facts of one pipeline table, computed once and shown as text, JSON, picture or trace. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/pipeline.h"

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
/// options (find_unfit).
[[nodiscard]] PipelineReport make_pipeline_report(const PipelineSchedule& schedule,
                                                  const PipelineOptions& options,
                                                  const PipelineDurations& of_a_rank);

/// Which of its rank's stages a task belongs to: 0 for the first, counted copy by copy. Always 0 if a rank has only one
/// stage.
[[nodiscard]] int chunk_of(const PipelineTable& table, const PipelineTask& task);
/// The largest number of stages that a rank has.
[[nodiscard]] int most_chunks(const PipelineTable& table);

}  // namespace trireme::simulate
