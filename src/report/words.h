// Small pieces of text shared by reports. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/pipeline.h"

namespace trireme::report {

/// "1 rank", "3 ranks", "4 micro-batches".
[[nodiscard]] std::string plural(std::int64_t count, std::string_view thing);

/// "12.5 %" for 0.125.
[[nodiscard]] std::string percent(double share);

/// One line of a summary: the label in its own column, then the text.
[[nodiscard]] std::string summary_line(std::string_view label, std::string_view text);

/// In a legend.
[[nodiscard]] std::string_view legend_name(PipelineWork work);

}  // namespace trireme::report
