// A straight line through measured times, with confidence intervals. Pure; any thread.
#pragma once

#include <vector>

#include "trireme/host_probe.h"

namespace trireme::measure {

struct FitPoint {
  double x = 0;
  double y = 0;
};

/// The line y = intercept + slope * x with the least sum of squared relative errors. Clamps negative values to 0.
/// Requires three points or more, each y > 0, and two different x.
[[nodiscard]] LineFit fit_line(const std::vector<FitPoint>& points);

/// The mean of the values, with its interval. Requires two or more.
[[nodiscard]] Estimate mean_of(const std::vector<double>& values);

}  // namespace trireme::measure
