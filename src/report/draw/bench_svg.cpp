// Measured and predicted times over size as a plot for each operation. Both axes are logarithmic.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/draw/bench_drawing.h"
#include "report/draw/log_axes.h"
#include "report/draw/log_plot.h"
#include "report/draw/palette.h"
#include "report/draw/svg.h"

namespace trireme::report {
namespace {

using measure::BenchReport;
using measure::BenchRow;

using svg::Element;

struct PanelGeometry {
  double margin = 28;
  double title_size = 22;
  double title_height = 66;
  double axis_width = 62;
  double axis_height = 52;
  double plot_width = 700;
  double plot_height = 380;
  double heading = 34;  ///< of a panel
  double text_size = 12;
  double label_spacing = 17;
  double label_gap = 22;  ///< from the end of a line to its name
  double names_width = 170;
  double dot_radius = 3.2;
};

constexpr PanelGeometry kPanel;
constexpr std::string_view kPredictionDashes = "5 4";

/// One method of one operation.
struct MethodCurve {
  std::string name;
  std::vector<PlotSample> measured;
  std::vector<PlotSample> predicted;
};

std::vector<MethodCurve> curves_of(const BenchReport& report, Operation operation) {
  std::vector<MethodCurve> curves;
  for (const BenchRow& row : report.rows) {
    const double seconds = row.result.times.median.count;
    if (row.what.operation != operation || row.what.bytes.count == 0 || seconds <= 0) {
      continue;
    }
    const std::string_view method = to_text(row.what.method);
    auto found = std::ranges::find(curves, method, &MethodCurve::name);
    if (found == curves.end()) {
      found = curves.insert(found, MethodCurve{std::string(method), {}, {}});
    }
    const auto bytes = static_cast<double>(row.what.bytes.count);
    found->measured.push_back({bytes, seconds});
    if (row.predicted && row.predicted->count > 0) {
      found->predicted.push_back({bytes, row.predicted->count});
    }
  }
  return curves;
}

/// The plot of one operation.
class Panel {
 public:
  Panel(Operation operation, std::vector<MethodCurve> curves, double top)
      : operation_(operation),
        curves_(std::move(curves)),
        plot_({kPanel.margin + kPanel.axis_width, top + kPanel.heading, kPanel.plot_width,
               kPanel.plot_height},
              {find_range(&PlotSample::bytes, 1), find_range(&PlotSample::seconds, 1.25)}) {}

  [[nodiscard]] Element draw() const {
    Element panel = svg::group("operation");
    panel.add(svg::words({kPanel.margin, plot_.top() - 12}, to_text(operation_),
                         {.size = 16, .weight = "bold"}));
    return panel.add(plot_.draw_axes()).add(draw_curves()).add(draw_names());
  }

  static double height() { return kPanel.heading + kPanel.plot_height + kPanel.axis_height; }

 private:
  [[nodiscard]] LogScale::Range find_range(double PlotSample::*value, double room) const {
    std::vector<double> values;
    for (const MethodCurve& curve : curves_) {
      std::ranges::transform(curve.measured, std::back_inserter(values), value);
      std::ranges::transform(curve.predicted, std::back_inserter(values), value);
    }
    return range_of(values, room);
  }

  [[nodiscard]] Element draw_curves() const {
    const Palette palette(curves_.size());
    Element lines = svg::group("curves");
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      const std::string color = palette.ink(i);
      const MethodCurve& curve = curves_[i];
      if (!curve.predicted.empty()) {
        Element line = svg::outline(plot_.trace(curve.predicted),
                                    {.color = color, .width = 1.3, .dashes = kPredictionDashes});
        lines.add(line.set("class", "predicted"));
      }
      Element line = svg::outline(plot_.trace(curve.measured), {.color = color, .width = 2});
      lines.add(line.set("class", "measured").set("data-name", curve.name));
      for (const PlotSample& sample : curve.measured) {
        lines.add(svg::circle(plot_.place(sample), kPanel.dot_radius, color));
      }
    }
    return lines;
  }

  /// At the right ends of the lines, moved apart if they would overlap.
  [[nodiscard]] Element draw_names() const {
    const Palette palette(curves_.size());
    std::vector<std::pair<double, std::size_t>> ends;
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      ends.emplace_back(plot_.place(curves_[i].measured.back()).y, i);
    }
    std::ranges::sort(ends);
    std::vector<double> preferred;
    preferred.reserve(ends.size());
    for (const auto& end : ends) {
      preferred.push_back(end.first);
    }
    std::vector<double> places = keep_apart(preferred, kPanel.label_spacing);
    const double down = std::max(0.0, plot_.top() - places.front());
    std::ranges::for_each(places, [&](double& y) { y += down; });  // not into the panel above
    const double right = plot_.right();
    Element names = svg::group("names");
    for (std::size_t k = 0; k < ends.size(); ++k) {
      const std::string color = palette.ink(ends[k].second);
      names.add(svg::segment({right + 4, ends[k].first}, {right + kPanel.label_gap - 4, places[k]},
                             {.color = color, .width = 0.8}));
      names.add(svg::words({right + kPanel.label_gap, places[k] + 4}, curves_[ends[k].second].name,
                           {.size = kPanel.text_size, .color = color, .weight = "bold"}));
    }
    return names;
  }

  Operation operation_;
  std::vector<MethodCurve> curves_;
  LogPlot plot_;
};

}  // namespace

std::string bench_svg(const BenchReport& report) {
  const std::string title =
      fmt::format("{} ranks by {}{} · {} · {} buffers", report.plan.ranks,
                  to_text(report.plan.transport), report.plan.encrypt ? ", encrypted" : "",
                  to_text(report.plan.dtype), to_text(report.plan.buffers));
  Element canvas("g");
  canvas.add(svg::words({kPanel.margin, kPanel.margin + kPanel.title_size}, title,
                        {.size = kPanel.title_size, .weight = "bold"}));
  canvas.add(svg::words({kPanel.margin, kPanel.margin + kPanel.title_size + 22},
                        "median of isolated calls by size of the vector · dashes: predicted",
                        {.size = 14, .color = kQuiet}));
  double top = kPanel.margin + kPanel.title_height;
  for (const Operation operation : all_operations()) {
    std::vector<MethodCurve> curves = curves_of(report, operation);
    if (!curves.empty()) {
      canvas.add(Panel(operation, std::move(curves), top).draw());
      top += Panel::height();
    }
  }
  const double width = 2 * kPanel.margin + kPanel.axis_width + kPanel.plot_width +
                       kPanel.label_gap + kPanel.names_width;
  return svg::write({width, top + kPanel.margin, title}, canvas);
}

}  // namespace trireme::report
