// A comparison of algorithms for people. Any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "simulate/algorithm_comparison.h"

namespace trireme::cli {

/// A table: algorithms down, sizes across, the fastest of each size marked.
[[nodiscard]] std::string comparison_text(const Comparison& comparison, bool colour);

}  // namespace trireme::cli
