// Joining a world: every rank publishes where it can be reached, finds all others, and connects.
#pragma once

#include <memory>
#include <optional>

#include "comm/net/secret.h"
#include "comm/rendezvous/store.h"
#include "comm/transport/transport.h"
#include "comm/world/world_core.h"

namespace trireme::comm {

struct JoinParts {
  Rank rank = 0;
  Rank size = 1;
  WorldOptions options{};
  /// Where the ranks find one another. Used only until join() returns.
  Store& store;
  /// If ranks are threads.
  std::shared_ptr<InProcessHub> hub{};
  /// Authenticates connections between hosts.
  std::optional<Secret> secret{};
  /// When to stop waiting for other ranks.
  Deadline deadline = deadline_in(options.join_timeout);
};

/// Returns when all ranks have joined and are connected. Throws Error(System), or Error(Peer)
/// naming the ranks that did not join.
[[nodiscard]] std::unique_ptr<WorldCore> join(const JoinParts& parts);

}  // namespace trireme::comm
