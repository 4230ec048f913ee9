// A comparison of algorithms as JSON. Any thread.
#pragma once

#include <string>

#include "simulate/algorithm_comparison.h"

namespace trireme::cli {

/// One object: operation, ranks, rows of {bytes, best, algorithms: {name: seconds}}, crossovers.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

}  // namespace trireme::cli
