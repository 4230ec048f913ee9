// The command line of comm_fault_fuzz.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/fault_fuzz/scenario.h"

namespace trireme::fault_fuzz {

struct Settings {
  std::uint64_t seed = 1;
  double seconds = 0;
  int scenarios = 0;
  std::vector<Transport> transports{};
  std::string replay{};
  double shrink_seconds = 60;
  enum class AfterViolation { Stop, Continue } after_violation = AfterViolation::Stop;
  enum class Output { Brief, Verbose } output = Output::Brief;
};

[[nodiscard]] std::string_view usage();
/// Nothing if help was requested. Throws Error(Usage).
[[nodiscard]] std::optional<Settings> parse_settings(
    const std::vector<std::string_view>& arguments);

}  // namespace trireme::fault_fuzz
