// The picture of a benchmark, as SVG text.
#pragma once

#include <string>

#include "measure/bench_report.h"

namespace trireme::report {

/// Time over size, both logarithmic, a plot for each operation: measured as lines with dots, a color
/// for each method, predicted dashed. A barrier, which has no size, is left out.
[[nodiscard]] std::string bench_svg(const measure::BenchReport& report);

}  // namespace trireme::report
