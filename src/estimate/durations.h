// Durations in seconds.
#pragma once

namespace trireme {

inline constexpr double kHour = 3600;
inline constexpr double kDay = 24 * kHour;
inline constexpr double kYear = 365.25 * kDay;

}  // namespace trireme
