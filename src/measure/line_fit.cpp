#include "measure/line_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace trireme::measure {
namespace {

/// The quantile of Student's t for 95 %, two-sided.
double student(std::size_t freedom) {
  constexpr std::array<double, 20> kQuantiles{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                              2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                              2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  if (freedom <= kQuantiles.size()) {
    return kQuantiles.at(freedom - 1);
  }
  return 1.96 + 2.4 / static_cast<double>(freedom);  // within 0.3 % from here on
}

Estimate estimate_with_error(double value, double error) {
  const double kept = std::max(0.0, value);
  return {kept, std::max(0.0, value - error), std::max(kept, value + error)};
}

}  // namespace

LineFit fit_line(const std::vector<FitPoint>& points) {
  double s = 0;
  double sx = 0;
  double sy = 0;
  double sxx = 0;
  double sxy = 0;
  for (const FitPoint& point : points) {
    const double weight = 1 / (point.y * point.y);
    s += weight;
    sx += weight * point.x;
    sy += weight * point.y;
    sxx += weight * point.x * point.x;
    sxy += weight * point.x * point.y;
  }
  const double determinant = s * sxx - sx * sx;
  const double slope = (s * sxy - sx * sy) / determinant;
  const double intercept = (sxx * sy - sx * sxy) / determinant;
  double squares = 0;
  for (const FitPoint& point : points) {
    const double relative = (intercept + slope * point.x) / point.y - 1;
    squares += relative * relative;
  }
  const std::size_t freedom = points.size() - 2;
  const double variance = squares / static_cast<double>(freedom);
  const double t = student(freedom);
  return {estimate_with_error(intercept, t * std::sqrt(variance * sxx / determinant)),
          estimate_with_error(slope, t * std::sqrt(variance * s / determinant))};
}

Estimate mean_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return estimate_with_error(mean,
                             student(values.size() - 1) * std::sqrt(squares / (count - 1) / count));
}

}  // namespace trireme::measure
