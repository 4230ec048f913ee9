// A plot of time over size, both axes logarithmic: the positions of its points, and its axes.
// Callable from any thread.
#pragma once

#include <span>
#include <string_view>

#include "report/draw/log_axes.h"
#include "report/draw/svg.h"

namespace trireme::report {

struct PlotSample {
  double bytes = 0;
  double seconds = 0;
};

/// From the smallest to the largest value, widened by the factor `room` on both sides (by 2 if all
/// values are equal). Requires a value.
[[nodiscard]] LogScale::Range range_of(std::span<const double> values, double room);

class LogPlot {
 public:
  struct Ranges {
    LogScale::Range bytes;
    LogScale::Range seconds;
  };
  LogPlot(const svg::Box& box, const Ranges& ranges);

  [[nodiscard]] double top() const { return box_.y; }
  [[nodiscard]] double right() const { return box_.x + box_.width; }
  [[nodiscard]] double bottom() const { return box_.y + box_.height; }
  [[nodiscard]] svg::Point place(const PlotSample& sample) const;
  /// Straight lines from sample to sample.
  [[nodiscard]] svg::PathData trace(std::span<const PlotSample> samples) const;
  /// The grid, and the sizes and times at its edges.
  [[nodiscard]] svg::Element draw_axes() const;

 private:
  svg::Box box_;
  Ranges ranges_;
  LogScale x_;
  LogScale y_;
};

}  // namespace trireme::report
