// The numbers that describe a pipeline, and their limits. Callable from any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace trireme {

struct PipelineRange {
  std::string_view what;
  std::int64_t number = 0;
  std::int64_t most = 0;
};

/// The numbers that are not 1 or more, or too many.
[[nodiscard]] inline std::vector<std::string> range_problems(
    std::initializer_list<PipelineRange> ranges) {
  std::vector<std::string> found;
  for (const PipelineRange& range : ranges) {
    if (range.number < 1 || range.number > range.most) {
      found.push_back(
          fmt::format("{} {}; there can be 1 to {}", range.number, range.what, range.most));
    }
  }
  return found;
}

}  // namespace trireme
