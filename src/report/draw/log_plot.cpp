#include "report/draw/log_plot.h"

#include <algorithm>
#include <cmath>

#include "report/draw/palette.h"
#include "trireme/units.h"

namespace trireme::report {
namespace {

constexpr double kTickSize = 12;

}  // namespace

LogScale::Range range_of(std::span<const double> values, double room) {
  const auto [least, most] = std::ranges::minmax(values);
  const double around = least < most ? room : 2;
  return {least / around, most * around};
}

LogPlot::LogPlot(const svg::Box& box, const Ranges& ranges)
    : box_(box),
      ranges_(ranges),
      x_(ranges.bytes, {box.x, box.x + box.width}),
      y_(ranges.seconds, {box.y + box.height, box.y}) {}

svg::Point LogPlot::place(const PlotSample& sample) const {
  return {x_.at(sample.bytes), y_.at(sample.seconds)};
}

svg::PathData LogPlot::trace(std::span<const PlotSample> samples) const {
  svg::PathData path;
  for (const PlotSample& sample : samples) {
    &sample == &samples.front() ? path.move(place(sample)) : path.line(place(sample));
  }
  return path;
}

svg::Element LogPlot::draw_axes() const {
  const svg::Stroke grid{.color = kGrid};
  svg::Element axes = svg::group("axes");
  for (const double bytes : byte_ticks(ranges_.bytes)) {
    const double x = x_.at(bytes);
    axes.add(svg::segment({x, box_.y}, {x, bottom()}, grid));
    axes.add(svg::words({x, bottom() + 18}, to_text(Bytes{std::llround(bytes)}),
                        {.size = kTickSize, .color = kQuiet, .anchor = "middle"}));
  }
  for (const double seconds : second_ticks(ranges_.seconds)) {
    const double y = y_.at(seconds);
    axes.add(svg::segment({box_.x, y}, {right(), y}, grid));
    axes.add(svg::words({box_.x - 8, y + 4}, to_text(Seconds{seconds}),
                        {.size = kTickSize, .color = kQuiet, .anchor = "end"}));
  }
  return axes;
}

}  // namespace trireme::report
