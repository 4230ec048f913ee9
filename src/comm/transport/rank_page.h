// RankPage: the page that each rank of a host exposes to the others in shared memory. Only the owner writes, except for
// the bell and the verdict.
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/transport/bell.h"

namespace trireme::comm {

/// Whether a rank is present.
enum class Presence : std::uint32_t { Joining, Here, Left };

/// One per rank; at the start of its heap.
struct RankPage {
  Bell bell;
  alignas(64) std::atomic<std::uint64_t> beats{0};  ///< increases while the process runs
  std::atomic<Presence> presence{Presence::Joining};
  /// Set by the first peer that finds the rank dead or stopped: a CommFault + 1. All adopt it, so a rank that wakes up
  /// later learns that it was declared dead.
  std::atomic<std::uint32_t> verdict{0};
  /// Whether this rank can fetch from all others of its host. Final before the world is complete.
  std::atomic<bool> fetches{false};
};

}  // namespace trireme::comm
