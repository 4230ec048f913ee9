// The clock that training is timed with. Any thread.
#pragma once

#include <chrono>

#include "trireme/units.h"

namespace trireme::train {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline Seconds since(Clock::time_point start) {
  return {std::chrono::duration<double>(Clock::now() - start).count()};
}

}  // namespace trireme::train
