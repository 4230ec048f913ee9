#include "report/words.h"

#include <array>

#include <fmt/format.h>

namespace trireme::report {

std::string plural(std::int64_t count, std::string_view thing) {
  const std::string_view ending = count == 1 ? "" : thing.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, thing, ending);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string summary_line(std::string_view label, std::string_view text) {
  return fmt::format("  {:<12} {}\n", label, text);
}

std::string_view legend_name(PipelineWork work) {
  static constexpr std::array<std::string_view, 5> kNames{
      "Forward", "Backward", "Backward of the input", "Backward of the weights", "Update"};
  return kNames.at(static_cast<std::size_t>(work));
}

}  // namespace trireme::report
