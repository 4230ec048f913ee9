// The results of a benchmark for people. Any thread.
#pragma once

#include <string>

#include "measure/bench_report.h"
#include "report/text_style.h"

namespace trireme::report {

/// A table for each operation, then how good the predictions and the automatic choice are.
[[nodiscard]] std::string bench_text(const measure::BenchReport& report, bool color);

}  // namespace trireme::report
