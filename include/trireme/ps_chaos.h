// Chaos: starts the coordinator, servers and workers of a parameter server as processes, kills and pauses them from a seed,
// also while shards move and servers rejoin, and compares acknowledged with stored pushes. One run at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
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
  Seconds lease{0.15};
  /// "etcd://HOST:PORT,…/NAME" or "etcd+tls://…", of which nothing is stored yet: two coordinators, elected there. Empty:
  /// one.
  std::string membership{};
  TlsFiles etcd_tls{};    ///< for etcd+tls://
  std::string program{};  ///< the file of the `trireme` program
  std::string folder{};   ///< an empty one
  std::function<void(const std::string&)> on_event{};
};
/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ChaosOptions& options);

struct ChaosResult {
  std::size_t kills = 0;
  std::size_t pauses = 0;
  std::size_t moves = 0;           ///< of shards
  std::uint64_t acknowledged = 0;  ///< pushes
  std::uint64_t lost = 0;          ///< acknowledged, but not there
  std::uint64_t doubled = 0;       ///< there more often than pushed
  std::uint64_t reads = 0;         ///< that the workers checked
  /// Reads that miss the worker's own pushes, or pushes of others that the staleness bound demands.
  std::uint64_t violations = 0;
  /// The longest push or pull that the kill of a server delayed, from the call until the answer arrived; 0 if none took
  /// 20 ms.
  Seconds failover_p50{};
  Seconds failover_p99{};
  /// The same while a shard moved.
  Seconds move_p99{};
  Seconds join_p99{};  ///< until a new worker may push
  Seconds push_p50{};  ///< of all pushes
  Seconds elapsed{};
};

/// The secret of the processes, in this environment variable.
inline constexpr const char* kSecretVariable = "TRIREME_PS_SECRET";

/// Throws Error(Usage), Error(System) if a process cannot be started, or Error(Peer) if the cluster does not recover.
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
