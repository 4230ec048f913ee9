// The median of measured values. Any thread.
#pragma once

#include <algorithm>
#include <vector>

namespace trireme {

/// Of an even number of values the mean of the two in the middle; 0 of none.
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace trireme
