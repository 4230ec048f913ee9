// What a rank communicates in a step, summarized for display: which op, along which axis, carrying what, how often, and
// whether it overlaps with computation. Callable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trireme/program.h"

namespace trireme {

/// What communication carries: a bucket carries what was packed into it.
struct Carried {
  /// Activation for what a rank received and passes on, and for messages of unknown content.
  Category category = Category::Activation;
  std::string tensor{};  ///< its name, where it was computed
};

struct CommunicationUse {
  std::string op{};     ///< "all_reduce", "send", …
  std::string group{};  ///< the mesh axis, or several; empty for messages to one rank
  int peer = -1;        ///< of a message: the other rank
  Phase phase = Phase::Forward;
  Carried carries{};  ///< the first tensor of its kind
  /// Sent by this rank in one call, by the lower bounds of collectives; received, of a receive.
  double bytes = 0;
  int calls = 0;
  int overlapped =
      0;  ///< of these: other instructions run between its start and its result's first use

  /// In all calls.
  [[nodiscard]] double sent() const noexcept { return op == "receive" ? 0 : bytes * calls; }
};

/// What a rank knows about its messages, by tag. The sender knows which tensor a message carries; the receiver, whether
/// that is a term of a gradient, as of a parameter that two stages share.
struct RankMessages {
  std::map<std::int64_t, Carried> sent{};
  std::set<std::int64_t> received_gradients{};
};
[[nodiscard]] RankMessages messages_of(const Program& program);

/// In the order of their first use. What messages carry is known as far as the ranks at their other ends are given.
[[nodiscard]] std::vector<CommunicationUse> communication_of(
    const Program& program, const std::map<int, RankMessages>& peers = {});

}  // namespace trireme
