// Where the peak went: breaks the hardware's peak in the traced step down to MFU. Each part is a share of the ranks'
// time in that step, so that they add up to 100 %.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/page/panels.h"
#include "trireme/waterfall.h"

namespace trireme::report {
namespace {

struct Part {
  std::string_view key;
  std::string_view name;
  double share = 0;
  std::string_view color;
  bool total = false;  ///< a remainder rather than a loss
};

std::vector<Part> parts_of(const Waterfall& w) {
  return {
      {"peak", "Peak of the hardware", 1, "c1", true},
      {"messages", "Exposed communication: messages", w.messages, "wait"},
      {"collectives", "Exposed communication: collectives", w.collectives, "exchange"},
      {"outside", "Gaps between kernels", w.gaps, "none"},
      {"others", "Memory-bound kernels", w.memory_bound, "update"},
      {"repeated", "Recomputed memory-bound kernels", w.recomputed_kernels, "recompute"},
      {"slower",
       w.products < 0 ? "Matrix products above the measured peak" : "Matrix products below peak",
       w.products, "backward"},
      {"attention", w.attention < 0 ? "Attention above the measured peak" : "Attention below peak",
       w.attention, "forward"},
      {"hfu", "HFU: executed products", w.hfu(), "c1", true},
      {"recomputed", "Recomputed and unused products", w.recomputed_products, "recompute"},
      {"mfu", "MFU: products of the model", w.mfu, "c1", true}};
}

/// A lost part ends where the part before it left off; a negative one starts there. `whole` is the width of the cell.
std::vector<BarPart> bar_of(const Part& part, double left, double whole) {
  constexpr double kThinnest = 0.3;
  const double from = part.total ? 0 : std::min(left, left - part.share);
  const double width = std::abs(part.share);
  return {{.start = 100 * from / whole,
           .width = width > 0 ? std::max(100 * width / whole, kThinnest) : 0,
           .color = part.color}};
}

std::string lost_text(const Part& part) {
  const std::string_view sign = part.total ? "" : part.share < 0 ? "+ " : "− ";
  return fmt::format("{}{}", sign, share_text(std::abs(part.share)));
}

Element draw_parts(std::size_t number, const RecordedStep& step, const std::vector<Part>& parts) {
  Table table{.caption = fmt::format("Where the peak of step {} went", step.report.step),
              .headings = {"part", "", "share"},
              .source = "trace.json",
              .run = number};
  const double whole = std::max(1.0, step.hfu);
  double left = 1;
  for (const Part& part : parts) {
    Row row{.cells = {text_cell(std::string(part.name)), bar_cell(bar_of(part, left, whole)),
                      number_cell(part.key, part.share, lost_text(part))},
            .attributes = {{"data-step", std::to_string(step.report.step)}},
            .css_class = part.total ? "total" : ""};
    table.rows.push_back(std::move(row));
    left = part.total ? part.share : left - part.share;
  }
  return draw(table);
}

Element draw_waterfall(std::size_t number, const RunRecord& run) {
  const RecordedStep* step = run.traced_step();
  if (step == nullptr) {
    return not_recorded(kNoTrace);
  }
  const std::optional<Waterfall> found =
      waterfall_of(*run.trace, {.step = step->report.step,
                                .step_time = step->report.step_time,
                                .mfu = step->mfu,
                                .hfu = step->hfu});
  return found ? draw_parts(number, *step, parts_of(*found))
               : not_recorded(
                     "Not recorded: this trace.json does not say which kernels compute matrix "
                     "products.");
}

}  // namespace

Element waterfall_panel(Runs runs) {
  Element element =
      panel({.id = "waterfall",
             .title = "Where the rest went",
             .about = "From the peak of the hardware down to MFU, in the traced step: "
                      "shares of the time of all ranks. Ranks that share cores also "
                      "wait for each other inside kernels.",
             .wide = runs.size() > 1});
  add_each(element, runs, draw_waterfall);
  return element;
}

}  // namespace trireme::report
