// Shared by plots with logarithmic axes. Pure; any thread.
#pragma once

#include <span>
#include <vector>

namespace trireme::report {

/// Maps the logarithm of a value to a range of coordinates.
class LogScale {
 public:
  struct Range {
    double first = 0;
    double last = 0;
  };
  LogScale(Range values, Range coordinates);

  [[nodiscard]] double at(double value) const;

 private:
  Range values_;  ///< their logarithms
  Range coordinates_;
};

/// Round numbers of the range to label, powers of two.
[[nodiscard]] std::vector<double> byte_ticks(LogScale::Range range);
/// Powers of ten, or 1, 2 and 5 times them if those are too few.
[[nodiscard]] std::vector<double> second_ticks(LogScale::Range range);

/// The coordinates nearest to the preferred ones (ascending) that keep their distance: neighbors that
/// would be too close are centered on the mean of their preferred coordinates.
[[nodiscard]] std::vector<double> keep_apart(std::span<const double> preferred, double distance);

}  // namespace trireme::report
