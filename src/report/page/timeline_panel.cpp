// The traced step of all ranks: kernels and waits in one lane, exchanges in flight below them.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "report/draw/linear_scale.h"
#include "report/page/panels.h"
#include "report/page/traced_step.h"

namespace trireme::report {
namespace {

constexpr double kTimelineWidth = 1080;
constexpr double kTimelineLeft = 64;
constexpr double kTimelineRight = 8;
constexpr double kKernels = 26;  ///< height of a rank's kernels
constexpr double kExchange = 6;  ///< of a lane of exchanges
constexpr double kLaneGap = 2;
constexpr double kRankGap = 14;
constexpr double kAxis = 26;
constexpr int kMostLanes = 4;
/// Shapes closer than this, in pixels, are drawn as one; with many ranks, more are joined to keep the page small.
constexpr double kFinest = 0.35;
constexpr double kMostShapes = 12000;
/// Spans with a tooltip, also listed in a table.
constexpr std::size_t kListed = 60;

using TraceSpan = Trace::Span;

std::string_view color_of_phase(std::string_view phase) {
  constexpr std::array<std::string_view, 4> kPhases{"forward", "backward", "recompute", "update"};
  const auto* found = std::ranges::find(kPhases, phase);
  return found != kPhases.end() ? *found : "none";
}

struct Listed {
  std::string rank{};
  const TraceSpan* span = nullptr;
};

/// The longest kernels and waits of all ranks, the longest first.
std::vector<Listed> longest_of(const std::vector<TracedRank>& ranks) {
  std::vector<Listed> all;
  for (const TracedRank& rank : ranks) {
    for (const auto* spans : {&rank.kernels, &rank.waits}) {
      for (const TraceSpan* span : *spans) {
        all.push_back({rank.name, span});
      }
    }
  }
  const std::size_t count = std::min(kListed, all.size());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>(),
                            [](const Listed& one) { return one.span->duration.count; });
  all.resize(count);
  return all;
}

class TimelineArtist {
 public:
  TimelineArtist(const std::vector<TracedRank>& ranks, Seconds end,
                 const std::vector<Listed>& listed)
      : ranks_(ranks),
        x_({.first = 0,
            .last = end.count,
            .from = kTimelineLeft,
            .to = kTimelineWidth - kTimelineRight}) {
    for (const Listed& one : listed) {
      listed_.insert(one.span);
    }
    int lanes = 0;
    for (const TracedRank& rank : ranks) {
      lanes += 2 + lanes_of(rank);
    }
    finest_ = std::max(kFinest, lanes * (kTimelineWidth - kTimelineLeft) / kMostShapes);
  }

  [[nodiscard]] Element draw(std::string_view description) {
    Element content("g");
    double top = 4;
    for (const TracedRank& rank : ranks_) {
      content.add(draw_rank(rank, top));
      top += height_of(rank) + kRankGap;
    }
    Element picture("svg");
    picture.set("class", "timeline").set("role", "img").set("aria-label", description);
    picture.set("viewBox", fmt::format("0 0 {} {:.0f}", kTimelineWidth, top + kAxis));
    return picture.add(draw_axis(top)).add(content);
  }

 private:
  static int lanes_of(const TracedRank& rank) {
    int lanes = 0;
    for (const TracedExchange& exchange : rank.exchanges) {
      lanes = std::max(lanes, exchange.lane + 1);
    }
    return std::min(lanes, kMostLanes);
  }
  static double height_of(const TracedRank& rank) {
    return kKernels + lanes_of(rank) * (kExchange + kLaneGap);
  }

  /// A rectangle that waits to be joined with its neighbor.
  struct Shape {
    double from = 0;
    double to = 0;
    std::string_view color{};
    const TraceSpan* span = nullptr;
  };
  struct Lane {
    double top = 0;
    double height = 0;
  };

  [[nodiscard]] Shape shape_of(const TraceSpan& span, std::string_view color) const {
    return {.from = x_.at(span.start.count),
            .to = x_.at(span.start.count + span.duration.count),
            .color = color,
            .span = listed_.contains(&span) ? &span : nullptr};
  }

  static Element draw_shape(const Shape& shape, const Lane& lane) {
    Element rect("rect");
    rect.set("class", shape.color).set("x", shape.from).set("y", lane.top);
    rect.set("width", std::max(shape.to - shape.from, kFinest)).set("height", lane.height);
    if (shape.span != nullptr) {
      const TraceSpan& span = *shape.span;
      rect.add(svg::tooltip(fmt::format("{}, {}: {} at {}", span.name, span.category,
                                        to_text(span.duration), to_text(span.start))));
    }
    return rect;
  }

  /// The shapes of a lane, in the order of time. Joins those that would be too narrow to tell apart.
  void draw_shapes(Element& group, const std::vector<Shape>& shapes, const Lane& lane) const {
    std::optional<Shape> open;
    for (const Shape& shape : shapes) {
      const bool joins = open && open->span == nullptr && shape.span == nullptr &&
                         (open->color == shape.color ? shape.from - open->to < finest_
                                                     : shape.to - open->from < finest_);
      if (joins) {
        open->to = std::max(open->to, shape.to);
        continue;
      }
      if (open) {
        group.add(draw_shape(*open, lane));
      }
      open = shape;
    }
    if (open) {
      group.add(draw_shape(*open, lane));
    }
  }

  [[nodiscard]] Element draw_rank(const TracedRank& rank, double top) const {
    Element group("g");
    Element name("text");
    name.set("x", kTimelineLeft - 10).set("y", top + kKernels / 2 + 4).set("class", "y-label");
    group.add(name.add_text(rank.name));
    group.add(Element("rect")
                  .set("class", "lane")
                  .set("x", kTimelineLeft)
                  .set("y", top)
                  .set("width", kTimelineWidth - kTimelineLeft - kTimelineRight)
                  .set("height", kKernels));
    std::vector<Shape> kernels;
    for (const TraceSpan* span : rank.kernels) {
      kernels.push_back(shape_of(*span, color_of_phase(span->category)));
    }
    std::vector<Shape> waits;
    for (const TraceSpan* span : rank.waits) {
      waits.push_back(shape_of(*span, "wait"));
    }
    draw_shapes(group, kernels, {.top = top, .height = kKernels});
    draw_shapes(group, waits, {.top = top + kKernels / 3, .height = kKernels / 3});
    draw_exchanges(group, rank, top + kKernels + kLaneGap);
    return group;
  }

  void draw_exchanges(Element& group, const TracedRank& rank, double top) const {
    std::map<int, std::vector<Shape>> lanes;
    for (const TracedExchange& exchange : rank.exchanges) {
      lanes[std::min(exchange.lane, kMostLanes - 1)].push_back(
          shape_of(*exchange.span, "exchange"));
    }
    for (auto& [lane, shapes] : lanes) {
      std::ranges::stable_sort(shapes, {}, &Shape::from);
      draw_shapes(group, shapes, {.top = top + lane * (kExchange + kLaneGap), .height = kExchange});
    }
  }

  [[nodiscard]] Element draw_axis(double bottom) const {
    Element axis("g");
    for (const double tick : ticks_of(x_, 8)) {
      Element line("line");
      line.set("class", "grid").set("x1", x_.at(tick)).set("x2", x_.at(tick));
      line.set("y1", 0.0).set("y2", bottom);
      Element text("text");
      text.set("class", "x-label").set("x", x_.at(tick)).set("y", bottom + 16);
      axis.add(line).add(text.add_text(to_text(Seconds{tick})));
    }
    return axis;
  }

  const std::vector<TracedRank>& ranks_;
  LinearScale x_;
  double finest_ = kFinest;
  std::set<const TraceSpan*> listed_;
};

Element longest_table(std::size_t number, const std::vector<Listed>& listed) {
  Table table{.caption = "The longest kernels and waits",
              .headings = {"op", "phase", "rank", "block", "start", "duration"},
              .source = "trace.json",
              .run = number};
  for (const Listed& one : listed) {
    const TraceSpan& span = *one.span;
    const double block = number_of(span, "block");
    table.rows.push_back(
        {.cells = {text_cell(span.name), text_cell(span.category), text_cell(one.rank),
                   block < 0 ? text_cell("")
                             : number_cell("block", block, fmt::format("{}", block)),
                   number_cell("start", span.start.count, to_text(span.start)),
                   number_cell("duration", span.duration.count, to_text(span.duration))},
         .attributes = {{"data-rank", one.rank}, {"data-op", span.name}}});
  }
  return folded(fmt::format("The {} longest kernels and waits", listed.size()), table);
}

Element kernels_table(std::size_t number, const std::vector<OpTotals>& totals) {
  Table table{.caption = "Kernels of all ranks by op and phase",
              .headings = {"op", "phase", "calls", "time"},
              .source = "trace.json",
              .run = number};
  for (const OpTotals& one : totals) {
    table.rows.push_back(
        {.cells = {text_cell(one.op), text_cell(one.group),
                   number_cell("calls", static_cast<double>(one.calls), std::to_string(one.calls)),
                   number_cell("seconds", one.seconds, to_text(Seconds{one.seconds}))},
         .attributes = {{"data-kernel", one.op}, {"data-phase", one.group}}});
  }
  return folded("Time of all ranks by kernel", table);
}

Element draw_timeline(std::size_t number, const RunRecord& run) {
  if (!run.trace) {
    return not_recorded(kNoTrace);
  }
  const std::vector<TracedRank> ranks = traced_ranks(*run.trace);
  const std::vector<Listed> listed = longest_of(ranks);
  const std::string description = fmt::format("{}: {} ranks over {}", run.trace->title,
                                              ranks.size(), to_text(end_of(*run.trace)));
  Element region = html("div", "scroll");
  region.set("role", "region").set("tabindex", "0").set("aria-label", "Timeline");
  region.add(TimelineArtist(ranks, end_of(*run.trace), listed).draw(description));
  Element element = html("div");
  element.add(legend({{"forward", "forward"},
                      {"backward", "backward"},
                      {"recompute", "recomputation"},
                      {"update", "update"},
                      {"wait", "waiting (thin)"},
                      {"exchange", "communication in flight (below)"}}));
  element.add(region).add(kernels_table(number, computed(ranks)));
  return element.add(longest_table(number, listed));
}

}  // namespace

Element timeline_panel(Runs runs) {
  Element element = panel({.id = "timeline",
                           .title = "Timeline of all ranks",
                           .about = "One step, kernel by kernel. Each rank's clock starts with its "
                                    "step. trace.json opens at ui.perfetto.dev for a closer look.",
                           .wide = true});
  add_each(element, runs, draw_timeline);
  return element;
}

}  // namespace trireme::report
