// The tables of a chaos run. Lives of workers are numbered from 1. Values; any thread.
#pragma once

#include "ps/tools/chaos_ledger.h"
#include "trireme/ps_table.h"

namespace trireme::ps {

/// A counter for each key of each life.
[[nodiscard]] inline TableSpec chaos_counters() {
  return {.name = "counters", .keys = kChaosKeys * kMaxChaosLives};
}
/// Where it is. The counters of one life are on all shards.
[[nodiscard]] inline Key chaos_key(Key key, std::size_t life) {
  return key * kMaxChaosLives + life;
}

/// How many iterations each life has completed.
[[nodiscard]] inline TableSpec chaos_progress() {
  return {.name = "progress",
          .keys = kMaxChaosLives,
          .update = "max",
          .consistency = Consistency::Ssp,
          .staleness = kChaosStaleness};
}

}  // namespace trireme::ps
