// The programs of all ranks, looked at before anything runs: what they send. Any thread.
#pragma once

#include <string>
#include <vector>

#include "trireme/program.h"

namespace trireme {

/// What a rank sends to others in a step.
struct Traffic {
  std::string op{};
  std::string group{};  ///< none for messages to one rank
  double bytes = 0;     ///< by the lower bounds of collectives
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
/// By op, then by group. An op that the program has but that sends nothing, a receive, is there with 0.
[[nodiscard]] std::vector<Traffic> traffic_of(const Program& program);

}  // namespace trireme
