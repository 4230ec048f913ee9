// Small pieces of text shared by reports. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "trireme/pipeline.h"
#include "trireme/units.h"

namespace trireme::report {

using trireme::plural;

/// "12.5 %" for 0.125.
[[nodiscard]] std::string percent(double share);

/// "1.5 MiB".
[[nodiscard]] std::string bytes_text(double bytes);

[[nodiscard]] constexpr double microseconds(Seconds time) {
  return time.count * 1e6;
}

/// Shown for an unknown number.
inline constexpr const char* kUnknown = "unknown";

/// One line of a summary: the label in its own column, then the text.
[[nodiscard]] std::string summary_line(std::string_view label, std::string_view text);

/// In a legend.
[[nodiscard]] std::string_view legend_name(PipelineWork work);

}  // namespace trireme::report
