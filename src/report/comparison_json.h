// A comparison of algorithms as JSON. Callable from any thread.
#pragma once

#include <string>

#include "trireme/algorithm_comparison.h"

namespace trireme::report {

/// One object: operation, ranks, rows of {bytes, best, algorithms: {name: seconds}}, crossovers.
[[nodiscard]] std::string comparison_json(const simulate::AlgorithmComparison& comparison);

}  // namespace trireme::report
