// Chaos: starts the coordinator and servers of a parameter server as processes, kills and pauses them from a seed while
// workers push, and counts what was promised and what is there. One run at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/units.h"

namespace trireme::ps {

struct ChaosOptions {
  std::uint64_t seed = 1;
  std::size_t servers = 3;
  std::size_t workers = 2;
  std::size_t replicas = 2;
  std::uint32_t shards = 8;
  std::size_t faults = 20;  ///< kills and pauses
  Seconds lease{0.15};
  /// Starts a process of this program: the words to which "--role", "server" and so on are appended.
  std::vector<std::string> serve_command{};
  std::string folder{};  ///< for the coordinator's state; must exist
  std::function<void(const std::string&)> on_event{};
};
/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ChaosOptions& options);

struct ChaosResult {
  std::size_t kills = 0;
  std::size_t pauses = 0;
  std::uint64_t acknowledged = 0;  ///< pushes
  std::uint64_t lost = 0;          ///< acknowledged, but not there
  std::uint64_t doubled = 0;       ///< there more often than pushed
  /// The longest push that a kill or pause of a server delayed.
  Seconds failover_p50{};
  Seconds failover_p99{};
  Seconds push_p50{};  ///< of all pushes
  Seconds elapsed{};
};

/// The secret of the processes, in this environment variable.
inline constexpr const char* kSecretVariable = "TRIREME_PS_SECRET";

/// Throws Error(Usage), Error(System) if a process cannot be started, or Error(Peer) if the cluster does not recover.
[[nodiscard]] ChaosResult run_chaos(const ChaosOptions& options);

}  // namespace trireme::ps
