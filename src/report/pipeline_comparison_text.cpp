// All pipeline schedules side by side, as text.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "report/pipeline_text.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using simulate::PipelineComparison;
using simulate::PipelineReport;
using simulate::PipelineRow;

constexpr int kScheduleWidth = 15;

/// The numbers of a column: their heading and width.
struct Column {
  std::string_view title;
  int width;
};
constexpr std::array<Column, 7> kColumns{{{"time", 8},
                                          {"bubble", 9},
                                          {"in a rank", 11},
                                          {"steady", 8},
                                          {"activations", 13},
                                          {"versions", 10},
                                          {"messages", 10}}};

/// "4", or "1-4" if stages differ.
std::string versions_text(const std::vector<std::vector<int>>& versions) {
  int least = versions.front().front();
  int most = least;
  for (const std::vector<int>& copy : versions) {
    least = std::min(least, std::ranges::min(copy));
    most = std::max(most, std::ranges::max(copy));
  }
  return least == most ? fmt::format("{}", most) : fmt::format("{}-{}", least, most);
}

std::string row_text(const PipelineRow& row) {
  std::string out = padded(fmt::format("  {}", row.name), kScheduleWidth);
  if (!row.report) {
    return out + "  " + row.problems.front() + "\n";
  }
  const PipelineReport& report = *row.report;
  const bool endless = report.table.weights != WeightVersions::Single;
  const std::array<std::string, kColumns.size()> cells{
      fmt::format("{:.6g}", report.timing.makespan),
      percent(report.timing.bubble),
      percent(report.timing.rank_bubble),
      endless && report.timing.steady_bubble ? percent(*report.timing.steady_bubble) : "-",
      fmt::format("{:.4g}", std::ranges::max(report.activations)),
      versions_text(report.versions),
      fmt::format("{}", report.messages)};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += right_aligned(cells.at(i), kColumns.at(i).width);
  }
  return out + "  " + report.formula + "\n";
}

}  // namespace

std::string pipeline_comparison_text(const PipelineComparison& comparison, bool color) {
  const PipelineOptions& options = comparison.options;
  const PipelineDurations& d = comparison.durations;
  std::string out = styled("pipelines", Style::Bold, color) +
                    fmt::format(
                        " with D = {}, N = {}, K = {}: forward F = {:.4g}, backward "
                        "B + W = {:.4g} + {:.4g} of a rank's layers\n\n",
                        options.ranks, options.microbatches, options.chunks, d.forward,
                        d.backward_input, d.backward_weight);
  out += padded("", kScheduleWidth);
  for (const Column& column : kColumns) {
    out += right_aligned(column.title, column.width);
  }
  out += "  published bubble\n";
  for (const PipelineRow& row : comparison.rows) {
    out += row_text(row);
  }
  return out + styled(
                   "\n  bubble: idle share of all ranks' time; in a rank: of the time from its "
                   "first task to its last;\n  steady: while all ranks are busy, where no "
                   "update stops them.\n  activations: most that a rank keeps, in micro-batches of "
                   "its layers\n",
                   Style::Dim, color);
}

}  // namespace trireme::report
