// What a chaos run has shown: the ledgers of its workers next to the values on the servers. Pure; one thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ps/protocol/ids.h"
#include "ps/tools/chaos_ledger.h"
#include "ps/tools/shard_probe.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {

/// A fault. Delays of kills, moves and restarts are measured.
struct Strike {
  enum class Kind : std::uint8_t { KillServer, MoveShard, Restart, Other };
  Kind kind{};
  Micros time = 0;
  std::vector<bool> touched{};  ///< KillServer: by shard, whether the server had a replica
};

using Ledgers = std::vector<std::unique_ptr<SharedRecord<LifeLedger>>>;

/// Adds what one life pushed and what is there: `counts` are the values of chaos_counters().
void tally_counts(const SharedRecord<LifeLedger>& ledger, std::size_t life,
                  std::span<const float> counts, ChaosResult& result);
/// Reads that were staler than allowed. Lives without which the others may have continued are not checked.
void tally_staleness(const Ledgers& ledgers, ChaosResult& result);
/// What the kills of servers did to the throughput of shards.
void tally_throughput(const ShardWindows& windows, std::span<const Strike> strikes, Seconds lease,
                      ChaosResult& result);
void tally_times(const Ledgers& ledgers, std::span<const Strike> strikes, Seconds lease,
                 ChaosResult& result);

}  // namespace trireme::ps
