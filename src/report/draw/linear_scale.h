// A linear axis: values to coordinates, and where its labels go. Pure; any thread.
#pragma once

#include <vector>

namespace trireme::report {

/// Maps values to coordinates. Requires first != last.
struct LinearScale {
  double first = 0;
  double last = 1;
  double from = 0;
  double to = 1;

  [[nodiscard]] double at(double value) const {
    return from + (value - first) / (last - first) * (to - from);
  }
};

/// Multiples of 1, 2 or 5 times a power of ten within the scale, about this many.
[[nodiscard]] std::vector<double> ticks_of(const LinearScale& scale, double about = 6);

}  // namespace trireme::report
