// A plot of a benchmark, as SVG.
#pragma once

#include <string>

#include "trireme/bench.h"

namespace trireme::report {

/// Time over size, both logarithmic, a plot for each operation: measured as lines with dots, a color per method,
/// predicted dashed. Omits the barrier, which has no size.
[[nodiscard]] std::string bench_svg(const measure::BenchReport& report);

}  // namespace trireme::report
