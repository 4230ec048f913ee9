// The communication of a rank in a step, summarized for display: the op, the mesh axis, the tensor, the number of
// calls, and whether it overlaps with compute. Callable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trireme/program.h"

namespace trireme {

/// The data that communication carries: a bucket carries the tensors packed into it.
struct Carried {
  /// Activation for data that a rank receives and forwards, and for messages of unknown content.
  Category category = Category::Activation;
  std::string tensor{};  ///< its name on the rank that computed it
};

struct CommunicationUse {
  std::string op{};     ///< "all_reduce", "send", …
  std::string group{};  ///< the mesh axis, or several; empty for messages to one rank
  int peer = -1;        ///< of a message: the other rank
  Phase phase = Phase::Forward;
  Carried carries{};  ///< the first tensor of its kind
  /// Bytes that this rank sends in one call, by the lower bounds of collectives; for a receive, bytes received.
  double bytes = 0;
  int calls = 0;
  /// Calls that overlap: other instructions run between the start and the result's first use.
  int overlapped = 0;

  /// In all calls.
  [[nodiscard]] double sent() const noexcept { return op == "receive" ? 0 : bytes * calls; }
};

/// A rank's knowledge of its messages, by tag. The sender knows which tensor a message carries; the receiver, whether
/// it is a partial gradient, such as of a parameter that two stages share.
struct RankMessages {
  std::map<std::int64_t, Carried> sent{};
  std::set<std::int64_t> received_gradients{};
};
[[nodiscard]] RankMessages messages_of(const Program& program);

/// In order of first use. The contents of a message are known only if the rank at its other end is included.
[[nodiscard]] std::vector<CommunicationUse> communication_of(
    const Program& program, const std::map<int, RankMessages>& peers = {});

}  // namespace trireme
