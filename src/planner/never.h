// The time of a stage that is not possible.
#pragma once

#include <limits>

namespace trireme {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace trireme
