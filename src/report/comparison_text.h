// A comparison of algorithms as text. Callable from any thread.
#pragma once

#include <string>

#include "report/text_style.h"
#include "trireme/algorithm_comparison.h"

namespace trireme::report {

/// A table: algorithms down, sizes across, the fastest of each size marked.
[[nodiscard]] std::string comparison_text(const simulate::AlgorithmComparison& comparison,
                                          bool color);

}  // namespace trireme::report
