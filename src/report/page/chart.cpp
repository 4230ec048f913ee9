#include "report/page/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "report/draw/linear_scale.h"

namespace trireme::report {
namespace {

using svg::Element;
using svg::Point;

constexpr double kChartWidth = 480;
constexpr double kChartHeight = 276;
constexpr double kChartLeft = 58;
constexpr double kChartRight = 12;
constexpr double kChartTop = 12;
constexpr double kChartBottom = 46;
constexpr std::size_t kChartStretches = 240;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Not empty, with a margin as a share of its length.
  [[nodiscard]] Range widened(double margin) const {
    const double length = high > low ? high - low : std::max(std::abs(high), 1.0);
    return {low - margin * length, high + margin * length};
  }
};

Element text_at(Point at, std::string_view text, std::string_view css_class) {
  Element element("text");
  element.set("x", at.x).set("y", at.y).set("class", css_class);
  return element.add_text(text);
}

Element line(Point from, Point to, std::string_view css_class) {
  Element element("line");
  element.set("x1", from.x).set("y1", from.y).set("x2", to.x).set("y2", to.y);
  return element.set("class", css_class);
}

class ChartArtist {
 public:
  explicit ChartArtist(const LineChart& chart) : chart_(chart) {
    Range x;
    Range y;
    for (const ChartSeries& series : chart.series) {
      for (const Point& point : series.points) {
        x.add(point.x);
        y.add(point.y);
      }
    }
    for (const ChartMark& mark : chart.marks) {
      y.add(mark.value);
    }
    if (chart.from_zero) {
      y.add(0);
    }
    x = x.widened(x.high > x.low ? 0 : 0.5);
    y = y.widened(0.05);
    y.low = chart.from_zero ? 0 : y.low;
    x_ = {.first = x.low, .last = x.high, .from = kChartLeft, .to = kChartWidth - kChartRight};
    y_ = {.first = y.low, .last = y.high, .from = kChartHeight - kChartBottom, .to = kChartTop};
  }

  [[nodiscard]] Element draw() const {
    Element picture("svg");
    picture.set("class", "chart").set("id", chart_.id).set("role", "img");
    picture.set("viewBox", fmt::format("0 0 {} {}", kChartWidth, kChartHeight));
    picture.set("aria-label", chart_.description);
    picture.add(draw_axes());
    for (const ChartMark& mark : chart_.marks) {
      picture.add(line({kChartLeft, y_.at(mark.value)},
                       {kChartWidth - kChartRight, y_.at(mark.value)}, "mark"));
      picture.add(
          text_at({kChartWidth - kChartRight, y_.at(mark.value) - 5}, mark.name, "mark-name"));
    }
    for (const ChartSeries& series : chart_.series) {
      picture.add(draw_series(series));
    }
    return picture;
  }

 private:
  [[nodiscard]] Element draw_axes() const {
    Element axes("g");
    for (const double tick : ticks_of(y_, 5)) {
      axes.add(line({kChartLeft, y_.at(tick)}, {kChartWidth - kChartRight, y_.at(tick)}, "grid"));
      axes.add(text_at({kChartLeft - 8, y_.at(tick) + 4}, chart_.y_text(tick), "y-label"));
    }
    for (const double tick : ticks_of(x_, 6)) {
      if (tick == std::floor(tick)) {
        axes.add(text_at({x_.at(tick), kChartHeight - kChartBottom + 18},
                         fmt::format("{:.0f}", tick), "x-label"));
      }
    }
    return axes.add(
        text_at({kChartWidth - kChartRight, kChartHeight - 6}, chart_.x_name, "axis-name"));
  }

  [[nodiscard]] Point place(Point point) const { return {x_.at(point.x), y_.at(point.y)}; }

  [[nodiscard]] Element draw_series(const ChartSeries& series) const {
    Element group("g");
    group.set("class", fmt::format("{}{}", series.color, series.dots ? " dotted" : ""));
    const std::vector<Point> points = thinned(series.points, kChartStretches);
    svg::PathData path;
    for (std::size_t i = 0; i < points.size(); ++i) {
      i == 0 ? path.move(place(points[i])) : path.line(place(points[i]));
    }
    group.add(Element("path").set("d", path.text()));
    if (series.dots || points.size() == 1) {
      for (const Point& point : points) {
        const Point at = place(point);
        group.add(Element("circle").set("cx", at.x).set("cy", at.y).set("r", 3.5));
      }
    }
    return group;
  }

  const LineChart& chart_;
  LinearScale x_;
  LinearScale y_;
};

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t stretches) {
  if (points.size() <= 2 * stretches) {
    return points;
  }
  std::vector<Point> kept;
  const double first = points.front().x;
  const double length = (points.back().x - first) / static_cast<double>(stretches);
  for (auto begin = points.begin(); begin != points.end();) {
    const double stretch = std::floor((begin->x - first) / length);
    const auto end = std::find_if(begin, points.end(), [&](const Point& point) {
      return std::floor((point.x - first) / length) > stretch;
    });
    const auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    kept.push_back(*std::min(low, high));
    if (low != high) {
      kept.push_back(*std::max(low, high));
    }
    begin = end;
  }
  return kept;
}

Element draw(const LineChart& chart) {
  return ChartArtist(chart).draw();
}

}  // namespace trireme::report
