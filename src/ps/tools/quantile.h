// Quantiles of measured values. Any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace trireme::ps {

/// The nearest of the values; 0 if there are none.
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto rank = std::lround(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + rank);
  return values[rank];
}

}  // namespace trireme::ps
