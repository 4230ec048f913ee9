#include "trireme/pipeline_report.h"

#include <algorithm>

#include "base/indexed_vector.h"

namespace trireme::simulate {

int max_chunks(const PipelineTable& table) {
  IndexedVector<int, int> counts(table.ranks);
  for (const std::vector<int>& ranks : table.placement) {
    for (const int rank : ranks) {
      ++counts[rank];
    }
  }
  return std::ranges::max(counts);
}

int chunk_of(const PipelineTable& table, const PipelineTask& task) {
  const int rank = table.rank_of(task.copy, task.stage);
  int chunk = 0;
  for (int copy = 0; copy <= task.copy; ++copy) {
    const std::vector<int>& ranks = table.placement[copy];
    const auto end = copy == task.copy ? ranks.begin() + task.stage : ranks.end();
    chunk += static_cast<int>(std::count(ranks.begin(), end, rank));
  }
  return chunk;
}

PipelineReport make_pipeline_report(PipelineTable table, const PipelineDurations& of_a_rank) {
  PipelineReport report;
  report.problems = problems(table);
  report.table = std::move(table);
  report.durations = of_a_rank;
  if (!report.problems.empty()) {
    return report;
  }
  report.timing = time_pipeline(report.table, stage_durations(report.table, of_a_rank));
  const double share = static_cast<double>(report.table.ranks) / report.table.stages;
  for (const int peak : activation_peaks(report.table)) {
    report.activations.push_back(peak * share);
  }
  report.versions = live_versions(report.table);
  report.messages = count_messages(report.table);
  return report;
}

PipelineReport make_pipeline_report(const PipelineSchedule& schedule,
                                    const PipelineOptions& options,
                                    const PipelineDurations& of_a_rank) {
  PipelineReport report = make_pipeline_report(schedule.make(options), of_a_rank);
  report.description = schedule.description;
  report.formula = schedule.bubble;
  return report;
}

}  // namespace trireme::simulate
