#include "measure/line_fit.h"

#include <gtest/gtest.h>

namespace trireme::measure {
namespace {

TEST(LineFit, RecoversLine) {
  std::vector<FitPoint> points;
  for (const double x : {8.0, 64.0, 4096.0, 1e6}) {
    points.push_back({x, 2e-6 + 3e-10 * x});
  }
  const LineFit fit = fit_line(points);
  EXPECT_NEAR(fit.intercept.value, 2e-6, 1e-12);
  EXPECT_NEAR(fit.slope.value, 3e-10, 1e-16);
  EXPECT_NEAR(fit.slope.low, fit.slope.high, 1e-15);
}

TEST(LineFit, WeightsSmallAndLargeTimesEqually) {
  // Ten percent off at the top must not drown the intercept.
  const LineFit fit = fit_line({{8, 1e-6}, {16, 1e-6}, {32, 1e-6}, {1e6, 1e-3}, {2e6, 2.2e-3}});
  EXPECT_NEAR(fit.intercept.value, 1e-6, 1e-7);
  EXPECT_LT(fit.slope.low, fit.slope.value);
  EXPECT_GT(fit.slope.high, fit.slope.value);
}

TEST(LineFit, KeepsCostsNonNegative) {
  const LineFit fit = fit_line({{1, 2}, {2, 1.5}, {3, 1}});
  EXPECT_EQ(fit.slope.value, 0);
  EXPECT_EQ(fit.slope.low, 0);
}

TEST(LineFit, ComputesConfidenceIntervalOfMean) {
  const Estimate mean = mean_of({1, 2, 3, 4});
  EXPECT_NEAR(mean.value, 2.5, 1e-12);
  EXPECT_NEAR(mean.high - mean.value, 3.182 * 1.2909944 / 2, 1e-4);
  EXPECT_NEAR(mean.value - mean.low, mean.high - mean.value, 1e-12);
}

}  // namespace
}  // namespace trireme::measure
