// The waits and the messages of ranks in the traced step.
#include <algorithm>

#include <fmt/format.h>

#include "report/page/panels.h"
#include "report/page/traced_step.h"

namespace trireme::report {
namespace {

/// Consecutive parts of a bar, as shares of a whole.
std::vector<BarPart> stacked(const std::vector<std::pair<double, std::string_view>>& shares) {
  std::vector<BarPart> parts;
  double start = 0;
  for (const auto& [share, color] : shares) {
    const double width = std::clamp(100 * share, 0.0, 100 - start);
    parts.push_back({.start = start, .width = width, .color = color});
    start += width;
  }
  return parts;
}

Cell share_cell(std::string_view key, double share) {
  return number_cell(key, share, share_text(share));
}

Row idle_row(const RankTimes& rank, double whole) {
  const double kernels = rank.kernels() / whole;
  const double messages = rank.messages / whole;
  const double collectives = rank.collectives / whole;
  return {.cells = {text_cell(rank.name),
                    bar_cell(stacked(
                        {{kernels, "forward"}, {messages, "wait"}, {collectives, "exchange"}})),
                    share_cell("kernels", kernels), share_cell("messages", messages),
                    share_cell("collectives", collectives),
                    share_cell("outside", 1 - kernels - messages - collectives)},
          .attributes = {{"data-rank", rank.name}}};
}

std::string pipeline_text(const Plan& plan) {
  const int stages = plan.mesh.size("pipe");
  return stages > 1 ? fmt::format(
                          "{} pipeline stages, {} micro-batches by {}: a stage idles while "
                          "it waits for messages of its neighbors.",
                          stages, plan.microbatches, plan.schedule)
                    : "This plan has no pipeline, so no rank waits for another stage.";
}

Element draw_idle(std::size_t number, const RunRecord& run) {
  const RecordedStep* step = run.traced_step();
  if (step == nullptr) {
    return not_recorded(kNoTrace);
  }
  const double whole = step->report.step_time.count;
  Table table{.caption = fmt::format("How ranks spent step {}", step->report.step),
              .headings = {"rank", "", "kernels", "messages", "collectives", "outside kernels"},
              .source = "trace.json",
              .run = number};
  for (const RankTimes& rank : times_of(traced_ranks(*run.trace), {whole})) {
    table.rows.push_back(idle_row(rank, whole));
  }
  Element element = html("div");
  element.add(html("p", "about", pipeline_text(run.plan)));
  element.add(legend({{"forward", "computing"},
                      {"wait", "waiting for messages"},
                      {"exchange", "waiting for collectives"}}));
  return element.add(draw(table));
}

Row exchange_row(const OpTotals& one, double most) {
  return {
      .cells =
          {text_cell(one.group.empty() ? one.op : fmt::format("{} along {}", one.op, one.group)),
           bar_cell(
               {{.start = 0, .width = most > 0 ? 100 * one.bytes / most : 0, .color = "exchange"}}),
           number_cell("bytes", one.bytes, to_text(Bytes{static_cast<std::int64_t>(one.bytes)})),
           number_cell("calls", static_cast<double>(one.calls), std::to_string(one.calls)),
           number_cell("seconds", one.seconds, to_text(Seconds{one.seconds}))},
      .attributes = {{"data-op", one.op}, {"data-group", one.group}}};
}

Element draw_collectives(std::size_t number, const RunRecord& run) {
  if (!run.trace) {
    return not_recorded(kNoTrace);
  }
  const std::vector<OpTotals> totals = exchanged(traced_ranks(*run.trace));
  if (totals.empty()) {
    return html("p", "missing", "The traced step sends nothing between ranks.");
  }
  Table table{.caption = "Communication of all ranks in the traced step",
              .headings = {"operation", "", "bytes sent", "calls", "in flight"},
              .source = "trace.json",
              .run = number};
  for (const OpTotals& one : totals) {
    table.rows.push_back(exchange_row(one, totals.front().bytes));
  }
  return draw(table);
}

}  // namespace

Element idle_panel(Runs runs) {
  Element element = panel(
      {.id = "idle",
       .title = "Pipeline and idle time",
       .about =
           "What each rank did with its time in the traced step, until rank 0 had finished it.",
       .wide = runs.size() > 1});
  add_each(element, runs, draw_idle);
  return element;
}

Element collectives_panel(Runs runs) {
  Element element =
      panel({.id = "collectives",
             .title = "Bytes per collective",
             .about = "What all ranks together sent in the traced step, by operation and mesh "
                      "axis. Time in flight overlaps with computing.",
             .wide = runs.size() > 1});
  add_each(element, runs, draw_collectives);
  return element;
}

}  // namespace trireme::report
