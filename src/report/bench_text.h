// The results of a benchmark as text. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/bench.h"

namespace trireme::report {

/// A table for each operation, then the accuracy of the predictions and of the automatic choice.
[[nodiscard]] std::string bench_text(const measure::BenchReport& report, bool color);

}  // namespace trireme::report
