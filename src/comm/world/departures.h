// Departures: when ranks were first seen to have left or failed. Their earlier messages may still
// be arriving.
#pragma once

#include <chrono>
#include <map>

#include "trireme/schedule.h"

namespace trireme::comm {

/// One thread at a time.
class Departures {
 public:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] Clock::time_point first_seen(Rank rank) {
    return seen_.emplace(rank, Clock::now()).first->second;
  }

 private:
  std::map<Rank, Clock::time_point> seen_;
};

}  // namespace trireme::comm
