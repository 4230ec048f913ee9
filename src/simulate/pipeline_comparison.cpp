#include <utility>

#include "trireme/pipeline_report.h"

namespace trireme::simulate {

PipelineComparison compare_pipelines(const PipelineOptions& options,
                                     const PipelineDurations& of_a_rank) {
  PipelineComparison comparison{options, of_a_rank, {}};
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    PipelineRow row;
    row.name = schedule.name;
    row.problems = problems(schedule, options);
    if (row.problems.empty()) {
      row.report = make_pipeline_report(schedule, options, of_a_rank);
    }
    comparison.rows.push_back(std::move(row));
  }
  return comparison;
}

}  // namespace trireme::simulate
