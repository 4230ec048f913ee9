#include "report/words.h"

#include <array>

#include <fmt/format.h>

#include "base/indexed_vector.h"

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
  static constexpr std::array<std::string_view, 5> kNames{
      "Forward", "Backward", "Backward of the input", "Backward of the weights", "Update"};
  return kNames.at(position_of(work));
}

}  // namespace trireme::report
