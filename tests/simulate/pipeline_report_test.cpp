#include "trireme/pipeline_report.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

PipelineReport report_of(std::string_view schedule, const PipelineOptions& options) {
  return make_pipeline_report(find_pipeline_schedule(schedule).make(options), {});
}

TEST(PipelineReport, TimesValidTable) {
  const PipelineReport report = report_of("gpipe", {.ranks = 4, .microbatches = 6});
  EXPECT_EQ(report.problems, std::vector<std::string>{});
  EXPECT_NEAR(report.timing.bubble, 3.0 / 9, 1e-12);  // (D-1) / (N+D-1)
  EXPECT_EQ(report.activations, (std::vector<double>{6, 6, 6, 6}));
}

TEST(PipelineReport, DoesNotTimeInvalidTable) {
  PipelineTable table = find_pipeline_schedule("gpipe").make({.ranks = 2, .microbatches = 2});
  table.tasks.front().clear();
  const PipelineReport report = make_pipeline_report(std::move(table), {});
  EXPECT_FALSE(report.problems.empty());
  EXPECT_TRUE(report.timing.tasks.empty());
}

TEST(PipelineReport, CountsStagesOfRank) {
  const PipelineOptions options{.ranks = 2, .microbatches = 2, .chunks = 2};
  const PipelineReport report = report_of("interleaved", options);
  EXPECT_EQ(max_chunks(report.table), 2);
  EXPECT_EQ(chunk_of(report.table, {.stage = 0}), 0);
  EXPECT_EQ(chunk_of(report.table, {.stage = 2}), 1);
}

TEST(PipelineTrace, HasSpanForEveryTask) {
  const PipelineReport report = report_of("1f1b", {.ranks = 3, .microbatches = 4});
  const Trace trace = pipeline_trace(report);
  std::size_t tasks = 0;
  for (const std::vector<PipelineTask>& rank : report.table.tasks) {
    tasks += rank.size();
  }
  EXPECT_EQ(trace.kind, TraceKind::Predicted);
  EXPECT_EQ(trace.spans.size(), tasks);
  EXPECT_EQ(problems(trace), std::vector<std::string>{});
}

TEST(PipelineComparison, ExplainsInapplicableSchedules) {
  const PipelineComparison comparison = compare_pipelines({.ranks = 3, .microbatches = 5}, {});
  EXPECT_EQ(comparison.rows.size(), pipeline_schedules().size());
  EXPECT_TRUE(std::ranges::all_of(comparison.rows, [](const PipelineRow& row) {
    return row.report.has_value() == row.problems.empty();
  }));
  EXPECT_TRUE(std::ranges::any_of(comparison.rows,
                                  [](const PipelineRow& row) { return !row.problems.empty(); }));
}

}  // namespace
}  // namespace trireme::simulate
