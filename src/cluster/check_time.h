// A check that the verifiers of this folder share. Any thread.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/units.h"

namespace trireme {

/// Adds a problem unless the time is finite and at least 0.
inline void check_time(std::vector<std::string>& problems, const std::string& what, Seconds time) {
  if (!std::isfinite(time.count) || time.count < 0) {
    problems.push_back(
        fmt::format("{} is {} s; it must be a time of at least 0", what, time.count));
  }
}

}  // namespace trireme
