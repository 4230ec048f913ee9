// At which sizes direct operations (direct.h) change their way. Bytes. In one place, as their cost
// model and the probe go by them too.
#pragma once

#include <cstdint>

#include "trireme/schedule.h"

namespace trireme::comm {

/// Ranks do not write to one line of a cache.
inline constexpr std::int64_t kLine = 64;
/// Inputs up to this long are copied even where peers could see them: one wait instead of two.
inline constexpr std::int64_t kCopyAnyway = 4096;
/// Combinations up to this long are done by every rank for itself.
inline constexpr std::int64_t kCombineAlone = 16384;
/// Longer results pass by the caches.
inline constexpr std::int64_t kStreamAbove = std::int64_t{4} << 20;
/// Blocks of this length are fetched from a process that does not share them, where each has one
/// reader.
inline constexpr std::int64_t kFetchFrom = std::int64_t{32} << 10;
/// Longer ones are staged, but for an all-to-all of two ranks.
inline constexpr std::int64_t kFetchTo = std::int64_t{2} << 20;
/// Ranks from which on a scatter is fetched whatever its length: one rank that copies for all holds them up.
inline constexpr Rank kManyReaders = 5;

/// Whether an operation on memory that peers do not see is done so, where they can; `block` is its longest.
[[nodiscard]] constexpr bool is_fetched(Operation operation, Rank ranks, std::int64_t block) {
  if (block < kFetchFrom) {
    return false;
  }
  switch (operation) {
    case Operation::Alltoall:
      return block <= kFetchTo || ranks == 2;
    case Operation::Scatter:
      return block <= kFetchTo || ranks >= kManyReaders;
    case Operation::Allgather:
      return block <= kFetchTo && ranks == 2;
    default:
      return false;
  }
}

}  // namespace trireme::comm
