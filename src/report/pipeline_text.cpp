#include "report/pipeline_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/pipeline_timeline.h"
#include "report/words.h"

namespace trireme::report {
namespace {

using simulate::PipelineReport;

constexpr std::size_t kMaxNumbers = 16;

std::string headline(const PipelineReport& report, bool color) {
  const PipelineTable& table = report.table;
  std::string rest = fmt::format(" over {}, {} micro-batch{}", plural(table.ranks, "rank"),
                                 table.microbatches, table.microbatches == 1 ? "" : "es");
  if (table.stages != table.ranks) {
    rest += fmt::format(", {}", plural(table.stages, "stage"));
  }
  if (table.copies > 1) {
    rest += fmt::format(", {} copies of the model", table.copies);
  }
  return styled(table.name, Style::Bold, color) + rest + "\n" +
         (report.description.empty() ? "" : report.description + "\n");
}

std::string durations_text(const PipelineDurations& d) {
  std::string text = fmt::format(
      "of a rank's layers: forward {:.4g}, backward {:.4g} (input {:.4g}, weights {:.4g})",
      d.forward, d.backward_input + d.backward_weight, d.backward_input, d.backward_weight);
  if (d.update > 0) {
    text += fmt::format(", update {:.4g}", d.update);
  }
  return d.message > 0 ? fmt::format("{}; a message {:.4g}", text, d.message) : text;
}

std::string bubble_lines(const PipelineReport& report, bool color) {
  const PipelineTiming& timing = report.timing;
  std::string out = summary_line(
      "bubble", styled(percent(timing.bubble), Style::Bold, color) + " of all ranks' time");
  out += summary_line(
      "", percent(timing.rank_bubble) + " of a rank's, from its first task to its last");
  if (timing.steady_bubble && report.table.weights != WeightVersions::Single) {
    out += summary_line("", percent(*timing.steady_bubble) + " while all ranks are busy");
  }
  return report.formula.empty() ? out : out + summary_line("", "published: " + report.formula);
}

/// "4 3 2 1"; truncated if there are many.
template <class Numbers>
std::string listed(const Numbers& numbers) {
  std::string out;
  for (std::size_t i = 0; i < std::min(numbers.size(), kMaxNumbers); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : " ", numbers[i]);
  }
  return numbers.size() > kMaxNumbers ? out + " …" : out;
}

std::string versions_text(const PipelineReport& report) {
  if (report.table.weights == WeightVersions::Single) {
    return report.table.copies == 1
               ? "one version"
               : fmt::format("one version, on {} ranks each", report.table.copies);
  }
  return fmt::format("{} versions at most, by stage; a forward reads the {} one",
                     listed(report.versions.front()),
                     report.table.weights == WeightVersions::Newest ? "newest" : "last but one");
}

std::string summary(const PipelineReport& report, const Terminal& terminal) {
  std::string out;
  out += summary_line(
      "time", styled(fmt::format("{:.6g}", report.timing.makespan), Style::Bold, terminal.color) +
                  "; " + durations_text(report.durations));
  out += bubble_lines(report, terminal.color);
  out += summary_line("activations",
                      fmt::format("{} by rank, at most, in micro-batches of a rank's layers",
                                  listed(report.activations)));
  out += summary_line("weights", versions_text(report));
  out += summary_line("messages", fmt::format("{}", report.messages));
  out += summary_line(
      "verified",
      styled("yes", Style::Good, terminal.color) +
          ", every micro-batch passes once forward and once backward through every stage");
  return out;
}

std::string problems_text(const PipelineReport& report, bool color) {
  std::string text = styled("WRONG", Style::Bad, color);
  for (const std::string& problem : report.problems) {
    text += "\n               " + problem;
  }
  return summary_line("verified", text);
}

}  // namespace

std::string pipeline_text(const PipelineReport& report, const Terminal& terminal) {
  const std::string head = headline(report, terminal.color) + "\n";
  if (!report.problems.empty()) {
    return head + problems_text(report, terminal.color);
  }
  return head + timeline_text(report, terminal) + "\n" + summary(report, terminal);
}

}  // namespace trireme::report
