#include "report/draw/pipeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "report/draw/layout.h"
#include "report/draw/palette.h"
#include "report/draw/svg.h"
#include "report/words.h"
#include "trireme/error.h"

namespace trireme::report {
namespace {

using simulate::PipelineComparison;
using simulate::PipelineReport;
using simulate::PipelineRow;

using svg::Element;

constexpr std::size_t kMaxTasks = 20'000;
constexpr int kMaxPipelineRows = 128;

/// All sizes in SVG units.
struct PictureSizes {
  double margin = 28;
  double title_height = 64;
  double panel_title = 40;
  double panel_gap = 22;
  double lane_height = 24;
  double lane_gap = 4;
  double names = 62;       ///< the column of rank names
  double facts = 120;      ///< the column next to the lanes
  double box = 26;         ///< the width of the shortest task, if it fits
  double widest = 2000;    ///< of the lanes
  double narrowest = 520;  ///< the same
  double label = 11;
  double axis = 34;
  double legend = 34;
};
constexpr PictureSizes kPicture;

/// The palette hue of each kind of work.
constexpr IndexedArray<PipelineWork, std::size_t, 5> kHues{0, 3, 4, 2, 6};
constexpr std::size_t kHueCount = 8;
constexpr std::string_view kIdleFill = "#f3f4f6";

std::string fill_of(PipelineWork work, int chunk) {
  const double strength = std::max(0.35, 1.0 - 0.4 * chunk);
  return Palette(kHueCount).fill(kHues.at(work), strength);
}

void check_size(const PipelineTable& table) {
  std::size_t tasks = 0;
  for (const std::vector<PipelineTask>& rank : table.tasks) {
    tasks += rank.size();
  }
  if (table.ranks > kMaxPipelineRows || tasks > kMaxTasks) {
    throw Error(ErrorKind::Usage,
                fmt::format("--svg: {} ranks with {} tasks are too many for a picture; at most {} "
                            "with {} fit",
                            table.ranks, tasks, kMaxPipelineRows, kMaxTasks));
  }
}

double shortest_task(const PipelineTiming& timing) {
  double shortest = timing.makespan;
  for (const std::vector<PipelineTiming::Span>& rank : timing.tasks) {
    for (const PipelineTiming::Span& span : rank) {
      shortest = span.end > span.start ? std::min(shortest, span.end - span.start) : shortest;
    }
  }
  return shortest;
}

/// 1, 2 or 5 times a power of ten, such that about ten of them fit.
double tick_step(double whole) {
  const double rough = whole / 10;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      return factor * power;
    }
  }
  return 10 * power;
}

/// Draws panels below each other, all to one scale.
class PipelineArtist {
 public:
  explicit PipelineArtist(std::vector<const PipelineReport*> reports)
      : reports_(std::move(reports)), content_("g") {
    double longest = 0;
    double shortest = 0;
    for (const PipelineReport* report : reports_) {
      check_size(report->table);
      longest = std::max(longest, report->timing.makespan);
      const double task = shortest_task(report->timing);
      shortest = shortest == 0 ? task : std::min(shortest, task);
    }
    longest_ = longest > 0 ? longest : 1;
    const double preferred = shortest > 0 ? longest_ / shortest * kPicture.box : 0;
    lanes_ = std::clamp(preferred, kPicture.narrowest, kPicture.widest);
  }

  std::string draw(std::string_view title, std::string_view subtitle) {
    const double width = std::max(2 * kPicture.margin + kPicture.names + lanes_ + kPicture.facts,
                                  2 * kPicture.margin + svg::text_width(subtitle, 14));
    content_.add(
        svg::words({kPicture.margin, kPicture.margin + 16}, title, {.size = 22, .weight = "bold"}));
    content_.add(svg::words({kPicture.margin, kPicture.margin + 38}, subtitle,
                            {.size = 14, .color = kQuiet}));
    double top = kPicture.margin + kPicture.title_height;
    for (const PipelineReport* report : reports_) {
      top = draw_panel(*report, top) + kPicture.panel_gap;
    }
    draw_legend(top);
    return svg::write({width, top + kPicture.legend + kPicture.margin, title}, content_);
  }

 private:
  [[nodiscard]] double x_at(double time) const {
    return kPicture.margin + kPicture.names + time / longest_ * lanes_;
  }

  double draw_panel(const PipelineReport& report, double top) {
    if (reports_.size() > 1) {
      top += draw_panel_title(report, top);
    }
    for (int rank = 0; rank < report.table.ranks; ++rank) {
      draw_lane(report, rank, top + rank * (kPicture.lane_height + kPicture.lane_gap));
    }
    const double bottom = top + report.table.ranks * (kPicture.lane_height + kPicture.lane_gap);
    return bottom + draw_axis(report, bottom);
  }

  double draw_panel_title(const PipelineReport& report, double top) {
    content_.add(
        svg::words({kPicture.margin, top + 14}, report.table.name, {.size = 14, .weight = "bold"}));
    content_.add(svg::words(
        {kPicture.margin + svg::text_width(report.table.name, 15) + 14, top + 14},
        fmt::format("time {:.6g}, bubble {:.1f} %, {:.1f} % in a rank", report.timing.makespan,
                    100 * report.timing.bubble, 100 * report.timing.rank_bubble),
        {.size = 12, .color = kQuiet}));
    return kPicture.panel_title - 16;
  }

  void draw_lane(const PipelineReport& report, int rank, double top) {
    const double base = top + kPicture.lane_height / 2 + 4;
    Element lane = svg::group("rank");
    lane.set("data-rank", rank);
    lane.add(svg::words({kPicture.margin, base}, fmt::format("rank {}", rank), {.size = 12}));
    lane.add(svg::rectangle(
        {x_at(0), top, x_at(report.timing.makespan) - x_at(0), kPicture.lane_height}, kIdleFill));
    for (const bool marks : {false, true}) {  // marks are on top of boxes
      for (std::size_t i = 0; i < report.table.tasks[rank].size(); ++i) {
        const PipelineTiming::Span& span = report.timing.tasks[rank][i];
        if (marks == (span.start == span.end)) {
          add_task(report, report.table.tasks[rank][i], span, top, lane);
        }
      }
    }
    lane.add(svg::words({x_at(report.timing.makespan) + 10, base},
                        fmt::format("keeps {:.4g}", report.activations[rank]),
                        {.size = kPicture.label, .color = kQuiet}));
    content_.add(lane);
  }

  /// A box, or for an Update that takes no time a mark below the end of the task before it.
  void add_task(const PipelineReport& report, const PipelineTask& task,
                const PipelineTiming::Span& span, double top, Element& lane) {
    const double left = x_at(span.start);
    const double width = x_at(span.end) - left;
    Element drawn = svg::group("task");
    drawn.set("data-task", to_text(task));
    drawn.add(
        svg::tooltip(fmt::format("{} from {:.6g} to {:.6g}", to_text(task), span.start, span.end)));
    if (width <= 0) {
      drawn.add(mark({left, top + kPicture.lane_height}));
    } else {
      Element box = svg::rectangle({left, top, width, kPicture.lane_height},
                                   fill_of(task.work, simulate::chunk_of(report.table, task)));
      drawn.add(box.set("stroke", "#ffffff").set("stroke-width", 1));
    }
    const std::string label = fmt::format("{}", task.microbatch);
    if (svg::text_width(label, kPicture.label) <= width) {
      drawn.add(svg::words({left + width / 2, top + kPicture.lane_height / 2 + 4}, label,
                           {.size = kPicture.label, .anchor = "middle"}));
    }
    (width > 0 ? works_ : marked_).insert(task.work);
    lane.add(drawn);
  }

  /// A small triangle with its tip above the point.
  [[nodiscard]] static Element mark(svg::Point at) {
    svg::PathData triangle;
    triangle.move({at.x, at.y - 6}).line({at.x - 4, at.y + 1}).line({at.x + 4, at.y + 1}).close();
    return svg::shape(triangle, Palette(kHueCount).ink(kHues[PipelineWork::Update]));
  }

  double draw_axis(const PipelineReport& report, double top) {
    const double end = report.timing.makespan;
    if (end <= 0) {
      return 0;
    }
    const double step = tick_step(longest_);
    Element axis = svg::group("axis");
    for (int i = 0; i * step <= end * (1 + 1e-9); ++i) {
      const double x = x_at(i * step);
      axis.add(svg::segment({x, top}, {x, top + 5}, {.color = kFaint}));
      axis.add(svg::words({x, top + 17}, fmt::format("{:.6g}", i * step),
                          {.size = kPicture.label, .color = kQuiet, .anchor = "middle"}));
    }
    content_.add(axis);
    return kPicture.axis - 10;
  }

  void draw_legend(double top) {
    Element legend = svg::group("legend");
    double x = kPicture.margin;
    const auto add = [&](const std::string& fill, std::string_view name) {
      Element box = svg::rectangle({x, top, 24, 16}, fill);
      legend.add(box.set("stroke", kFaint).set("stroke-width", 0.5));
      legend.add(svg::words({x + 31, top + 12}, name, {.size = 12, .color = kQuiet}));
      x += 31 + svg::text_width(name, 12) + 18;
    };
    for (const PipelineWork work : works_) {
      add(fill_of(work, 0), legend_name(work));
    }
    add(std::string(kIdleFill), "Idle");
    for (const PipelineWork work : marked_) {
      legend.add(mark({x + 6, top + 13}));
      const std::string_view name = legend_name(work);
      legend.add(svg::words({x + 18, top + 12}, name, {.size = 12, .color = kQuiet}));
      x += 18 + svg::text_width(name, 12) + 18;
    }
    if (std::ranges::any_of(reports_, [](const PipelineReport* report) {
          return simulate::max_chunks(report->table) > 1;
        })) {
      legend.add(svg::words({x, top + 12}, "paler: another stage of the rank",
                            {.size = 12, .color = kQuiet}));
    }
    content_.add(legend);
  }

  std::vector<const PipelineReport*> reports_;  // outlive the artist, which lives for one call
  Element content_;
  std::set<PipelineWork> works_;   ///< seen as boxes
  std::set<PipelineWork> marked_;  ///< seen as marks
  double longest_ = 1;
  double lanes_ = 0;
};

}  // namespace

std::string pipeline_svg(const PipelineReport& report) {
  const std::string title = fmt::format("{} over {} ranks, {} micro-batches", report.table.name,
                                        report.table.ranks, report.table.microbatches);
  const std::string subtitle = fmt::format(
      "time {:.6g}, bubble {:.1f} %; at each rank: the most micro-batches whose activations it "
      "keeps",
      report.timing.makespan, 100 * report.timing.bubble);
  return PipelineArtist({&report}).draw(title, subtitle);
}

std::string pipelines_svg(const PipelineComparison& comparison) {
  std::vector<const PipelineReport*> reports;
  for (const PipelineRow& row : comparison.rows) {
    if (row.report) {
      reports.push_back(&*row.report);
    }
  }
  const std::string title = fmt::format("pipelines over {} ranks, {} micro-batches",
                                        comparison.options.ranks, comparison.options.microbatches);
  const std::string subtitle = fmt::format(
      "forward {:.4g}, backward {:.4g} + {:.4g} of a rank's layers", comparison.durations.forward,
      comparison.durations.backward_input, comparison.durations.backward_weight);
  return PipelineArtist(std::move(reports)).draw(title, subtitle);
}

}  // namespace trireme::report
