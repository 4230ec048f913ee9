// Line charts over steps, for the report page. Colors are classes of its style sheet, so that they follow light and dark.
// Plain values; any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/draw/svg.h"

namespace trireme::report {

struct ChartSeries {
  std::string name{};
  std::string color{};  ///< a class: "c1"
  std::vector<svg::Point> points{};
  bool dots = false;  ///< a dot at each point, and a dashed line
};

/// A horizontal line with a name, such as a bound.
struct ChartMark {
  std::string name{};
  double value = 0;
};

struct LineChart {
  std::string_view id;  ///< of the picture, unique on the page
  std::string description{};
  std::string_view x_name = "step";
  std::function<std::string(double)> y_text{};
  std::vector<ChartSeries> series{};
  std::vector<ChartMark> marks{};
  bool from_zero = false;  ///< the vertical axis begins at 0
};

/// Requires a point. Series with many points keep the smallest and the largest of each stretch.
[[nodiscard]] svg::Element draw(const LineChart& chart);

/// The smallest and the largest of each of `stretches` equal stretches of x, in their order; everything if that is no
/// more. The points are in the order of x.
[[nodiscard]] std::vector<svg::Point> thinned(const std::vector<svg::Point>& points,
                                              std::size_t stretches);

}  // namespace trireme::report
