#include "report/draw/straggler_svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/draw/linear_scale.h"
#include "report/draw/log_axes.h"
#include "report/draw/palette.h"
#include "report/draw/svg.h"

namespace trireme::report {
namespace {

using svg::Box;
using svg::Element;
using svg::Point;

/// All sizes in SVG units.
struct ScenarioGeometry {
  double margin = 28;
  double title_size = 20;
  double title_height = 64;
  double axis_width = 52;
  double axis_height = 52;
  double plot_width = 760;
  double plot_height = 330;
  double label_size = 12;
  double label_spacing = 17;
  double label_gap = 22;     ///< from the end of a line to its name
  double label_width = 170;  ///< room for names
  double dot = 4;
};

constexpr ScenarioGeometry kScenario;
constexpr std::string_view kTarget = "#8a919c";

class ScenarioPlot {
 public:
  ScenarioPlot(const StragglerScenario& scenario, double top)
      : scenario_(scenario), top_(top), palette_(scenario.report.runs.size()) {
    const double plot_top = top_ + kScenario.title_height;
    double slowest = 0;
    double highest = 0;
    double lowest = scenario.report.loss;
    for (const StragglerRun& run : scenario.report.runs) {
      slowest = std::max(slowest, run.time().count);
      highest = std::max(highest, run.curve.front().loss);
      lowest = std::min(lowest, std::ranges::min_element(run.curve, {}, &LossPoint::loss)->loss);
    }
    const double room = std::max((highest - lowest) / 20, 1e-6);
    const double left = kScenario.margin + kScenario.axis_width;
    x_ = {0, slowest, left, left + kScenario.plot_width};
    y_ = {lowest - room, highest + room, plot_top + kScenario.plot_height, plot_top};
  }

  static double height() {
    return kScenario.title_height + kScenario.plot_height + kScenario.axis_height;
  }

  [[nodiscard]] Element draw() const {
    Element plot = svg::group("scenario");
    plot.add(draw_title()).add(draw_axes()).add(draw_target());
    return plot.add(draw_curves()).add(draw_names());
  }

 private:
  [[nodiscard]] const std::vector<StragglerRun>& runs() const { return scenario_.report.runs; }
  [[nodiscard]] Point place(const LossPoint& point) const {
    return {x_.at(point.time.count), y_.at(point.loss)};
  }

  [[nodiscard]] Element draw_title() const {
    Element title = svg::group("title");
    const double base = top_ + kScenario.title_size;
    title.add(svg::words({kScenario.margin, base}, scenario_.name + ": " + scenario_.meaning,
                         {.size = kScenario.title_size, .weight = "bold"}));
    return title.add(svg::words(
        {kScenario.margin, base + 22},
        fmt::format("{}, {} workers · dashed: loss {:.3f}, which all reach", scenario_.report.model,
                    scenario_.report.workers, scenario_.report.loss),
        {.size = kScenario.label_size + 2, .color = kQuiet}));
  }

  [[nodiscard]] Element draw_axes() const {
    const svg::Stroke grid{.color = kGrid};
    Element axes = svg::group("axes");
    for (const double tick : ticks_of(x_)) {
      axes.add(svg::segment({x_.at(tick), y_.to}, {x_.at(tick), y_.from}, grid));
      axes.add(svg::words({x_.at(tick), y_.from + 18}, fmt::format("{:.3g} s", tick),
                          {.size = kScenario.label_size, .color = kQuiet, .anchor = "middle"}));
    }
    for (const double tick : ticks_of(y_)) {
      axes.add(svg::segment({x_.from, y_.at(tick)}, {x_.to, y_.at(tick)}, grid));
      axes.add(svg::words({x_.from - 8, y_.at(tick) + 4}, fmt::format("{:.3g}", tick),
                          {.size = kScenario.label_size, .color = kQuiet, .anchor = "end"}));
    }
    return axes;
  }

  [[nodiscard]] Element draw_target() const {
    const double y = y_.at(scenario_.report.loss);
    return svg::segment({x_.from, y}, {x_.to, y}, {.color = kTarget, .width = 1, .dashes = "6 5"});
  }

  [[nodiscard]] Element draw_curves() const {
    Element curves = svg::group("curves");
    for (std::size_t k = 0; k < runs().size(); ++k) {
      const std::string color = palette_.ink(k);
      svg::PathData path;
      for (const LossPoint& point : runs()[k].curve) {
        &point == &runs()[k].curve.front() ? path.move(place(point)) : path.line(place(point));
      }
      Element line = svg::outline(path, {.color = color, .width = 2});
      curves.add(line.set("class", "strategy").set("data-name", to_text(runs()[k].strategy)));
      curves.add(svg::circle(place(first_with_loss(runs()[k], scenario_.report.loss)),
                             kScenario.dot, color));
    }
    return curves;
  }

  /// At the right of the plot, in the order of the curves' ends.
  [[nodiscard]] Element draw_names() const {
    std::vector<std::size_t> order(runs().size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      order[k] = k;
    }
    const auto end_y = [&](std::size_t k) { return place(runs()[k].curve.back()).y; };
    std::ranges::stable_sort(order, {}, end_y);
    std::vector<double> preferred;
    std::ranges::transform(order, std::back_inserter(preferred), end_y);
    const std::vector<double> places = keep_apart(preferred, kScenario.label_spacing);
    Element names = svg::group("names");
    for (std::size_t i = 0; i < order.size(); ++i) {
      names.add(draw_name(order[i], places[i]));
    }
    return names;
  }

  [[nodiscard]] Element draw_name(std::size_t k, double y) const {
    const StragglerRun& run = runs()[k];
    const std::string color = palette_.ink(k);
    Element name = svg::group("name");
    name.add(svg::segment(place(run.curve.back()), {x_.to + kScenario.label_gap - 4, y},
                          {.color = color, .width = 0.8, .dashes = "2 3"}));
    return name.add(
        svg::words({x_.to + kScenario.label_gap, y + 4},
                   fmt::format("{} · {}", to_text(run.strategy),
                               to_text(first_with_loss(run, scenario_.report.loss).time)),
                   {.size = kScenario.label_size, .color = color, .weight = "bold"}));
  }

  const StragglerScenario& scenario_;
  double top_;
  Palette palette_;
  LinearScale x_;
  LinearScale y_;
};

}  // namespace

std::string straggler_svg(const std::vector<StragglerScenario>& scenarios) {
  Element canvas("g");
  double top = kScenario.margin;
  for (const StragglerScenario& scenario : scenarios) {
    canvas.add(ScenarioPlot(scenario, top).draw());
    top += ScenarioPlot::height() + kScenario.margin;
  }
  const double width = 2 * kScenario.margin + kScenario.axis_width + kScenario.plot_width +
                       kScenario.label_gap + kScenario.label_width;
  return svg::write({width, top, "Loss over time by synchronization strategy"}, canvas);
}

}  // namespace trireme::report
