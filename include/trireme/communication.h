// What a rank communicates in a step, grouped for people: which op, along which axis, carrying what, how often, and
// whether it overlaps with computation. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "trireme/program.h"

namespace trireme {

struct CommunicationUse {
  std::string op{};     ///< "all_reduce", "send", …
  std::string group{};  ///< the mesh axis, or several; empty for messages to one rank
  Phase phase = Phase::Forward;
  /// What it carries. A bucket carries what was packed into it, a message what the sender computed; a receive, which has
  /// no operand, counts as an activation.
  Category carries = Category::Activation;
  double bytes = 0;  ///< sent by this rank in one call, by the lower bounds of collectives
  int calls = 0;
  int overlapped =
      0;  ///< of these: other instructions run between its start and its result's first use
  std::string example{};  ///< the first tensor of its kind

  [[nodiscard]] double sent() const noexcept { return bytes * calls; }
};

/// In the order of their first use.
[[nodiscard]] std::vector<CommunicationUse> communication_of(const Program& program);

}  // namespace trireme
