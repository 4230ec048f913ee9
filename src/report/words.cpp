#include "report/words.h"

#include <array>

#include <fmt/format.h>

#include "base/enum_names.h"

namespace trireme::report {

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string bytes_text(double bytes) {
  return to_text(Bytes{static_cast<std::int64_t>(bytes)});
}

std::string summary_line(std::string_view label, std::string_view text) {
  return fmt::format("  {:<12} {}\n", label, text);
}

std::string_view legend_name(PipelineWork work) {
  static constexpr auto kNames = enum_names<PipelineWork>(
      "Forward", "Backward", "Backward of the input", "Backward of the weights", "Update");
  return kNames[work];
}

}  // namespace trireme::report
