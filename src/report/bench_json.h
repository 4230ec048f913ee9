// The results of a benchmark as JSON. Callable from any thread.
#pragma once

#include <string>

#include "trireme/bench.h"

namespace trireme::report {

/// One object on one line for each row.
[[nodiscard]] std::string bench_json(const measure::BenchReport& report);

}  // namespace trireme::report
