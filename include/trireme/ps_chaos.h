// Chaos: starts the coordinator, servers and workers of a parameter server as processes, kills and pauses them from a seed,
// also while shards move and servers rejoin, and compares acknowledged with stored pushes. One run at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/tls_files.h"
#include "trireme/units.h"

namespace trireme::ps {

struct ChaosOptions {
  std::uint64_t seed = 1;
  std::size_t servers = 4;   ///< processes
  std::size_t reactors = 1;  ///< of each server
  std::size_t workers = 3;
  std::size_t replicas = 3;  ///< so that chains have a head, a middle and a tail
  std::uint32_t shards = 8;
  std::size_t kills = 20;    ///< at least
  std::uint64_t pushes = 0;  ///< at least, acknowledged
  std::uint64_t reads = 0;   ///< at least, checked
  Seconds lease{0.15};
  /// "etcd://HOST:PORT,…/NAME" or "etcd+tls://…", of which nothing is stored yet: two coordinators, elected there. Empty:
  /// one.
  std::string membership{};
  TlsFiles etcd_tls{};    ///< for etcd+tls://
  std::string program{};  ///< the file of the `trireme` program
  std::string folder{};   ///< an empty one
  std::function<void(const std::string&)> on_event{};
  std::function<bool()> should_stop{};  ///< ends the run early, with an error
};
/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ChaosOptions& options);

/// What a victim was when it was struck; a server, in the chain of the shard for which it was chosen.
enum class ChaosRole : std::uint8_t { Head, Middle, Tail, Coordinator, Worker };
/// "head", …
[[nodiscard]] std::string_view to_text(ChaosRole role);
inline constexpr std::size_t kChaosRoles = 5;
using ChaosRoleCounts = std::array<std::size_t, kChaosRoles>;

struct ChaosResult {
  std::size_t kills = 0;
  std::size_t pauses = 0;
  ChaosRoleCounts kills_by_role{};
  ChaosRoleCounts pauses_by_role{};
  std::size_t faults_in_moves = 0;    ///< kills and pauses while a shard moved
  std::size_t faults_in_rejoins = 0;  ///< of a server that fetched the state of its shards
  std::size_t moves = 0;              ///< of shards
  std::size_t restarts = 0;           ///< of servers that handed their shards over first
  std::uint64_t acknowledged = 0;     ///< pushes
  std::uint64_t lost = 0;             ///< acknowledged, but not there
  std::uint64_t doubled = 0;          ///< there more often than pushed
  std::uint64_t reads = 0;            ///< that the workers checked
  /// Reads that miss the worker's own pushes, or pushes of others that the staleness bound demands.
  std::uint64_t violations = 0;
  std::size_t delaying_kills =
      0;  ///< kills of servers that delayed a push or pull by 20 ms or more
  /// Over those: the longest push or pull that the kill delayed, from the call until the answer arrived.
  Seconds failover_p50{};
  Seconds failover_p99{};
  /// What shards without a replica on the killed server lost of their throughput during the failover, in windows of 50 ms,
  /// and what the others lost: medians over the kills of servers. Negative: it rose. Nothing if no kill left a shard
  /// untouched.
  std::optional<double> untouched_loss{};
  std::optional<double> touched_loss{};
  /// The same while a shard moved.
  Seconds move_p99{};
  Seconds restart_p99{};  ///< the same while a server was restarted
  Seconds join_p99{};     ///< until a new worker may push
  Seconds push_p50{};     ///< of all pushes
  Seconds elapsed{};
};

/// The secret of the processes, in this environment variable.
inline constexpr const char* kSecretVariable = "TRIREME_PS_SECRET";

/// Throws Error(Usage), Error(System) if a process cannot be started, or Error(Peer) if the cluster does not recover or
/// should_stop() holds.
[[nodiscard]] ChaosResult run_chaos(const ChaosOptions& options);

/// One life of a worker, in a process of its own.
struct ChaosWorkerOptions {
  std::string coordinator{};
  TlsFiles etcd_tls{};
  std::string secret{};
  Seconds lease{0.15};
  std::string folder{};  ///< of the run
  std::size_t life = 1;
  std::uint64_t seed = 1;
};
/// Until the parent tells it to stop. Reports to the parent, errors too.
void run_chaos_worker(const ChaosWorkerOptions& options);

}  // namespace trireme::ps
