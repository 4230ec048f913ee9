// The sizes at which direct operations (direct.h) switch algorithms, in bytes. In one place, as their cost
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
/// Inputs up to this long are staged as a whole; longer ones, in chunks.
inline constexpr std::int64_t kWholeTo = std::int64_t{64} << 10;
/// The same where two ranks combine them, as in chunks each does a half; and where more than so many do, each of whom
/// would read all.
inline constexpr std::int64_t kCombinedWholeTo = std::int64_t{32} << 10;
inline constexpr Rank kFewCombine = 8;

[[nodiscard]] constexpr bool is_staged_whole(Operation operation, Rank ranks, std::int64_t input) {
  const bool all = operation == Operation::Allreduce;
  const bool combined = all || operation == Operation::Reduce;
  const bool chunked_soon = (combined && ranks == 2) || (all && ranks > kFewCombine);
  return input <= (chunked_soon ? kCombinedWholeTo : kWholeTo);
}

/// Chunks of a long call after which the first rank considers anew how they are written (store_policy.h).
inline constexpr std::int64_t kPartWindows = 4;

/// Longer results pass by the caches.
inline constexpr std::int64_t kStreamAbove = std::int64_t{4} << 20;
/// So do longer vectors that need only be copied: who has them writes them to where they are wanted (a broadcast by all, a
/// part each); shorter ones are read by whoever needs them. Where one rank alone would read, they are written sooner.
inline constexpr std::int64_t kSpreadAbove = std::int64_t{32} << 10;

/// Whether that is so, of memory that all ranks see; `bytes` are of the vector.
[[nodiscard]] constexpr bool is_spread(Operation operation, Rank ranks, std::int64_t bytes) {
  switch (operation) {
    case Operation::Gather:
      return bytes > kSpreadAbove;
    case Operation::Broadcast:
      return bytes > (ranks == 2 ? kSpreadAbove : kStreamAbove);
    case Operation::Allgather:
      return bytes > kStreamAbove;
    default:
      return false;
  }
}

/// Blocks of this length are copied by the system from a process that does not share them, or to it, where each has
/// one reader.
inline constexpr std::int64_t kFetchFrom = std::int64_t{32} << 10;
/// Longer ones are staged, unless there are many ranks.
inline constexpr std::int64_t kFetchTo = std::int64_t{2} << 20;
/// The same where two ranks have something for each other, as staging in the caches is faster, if it is possible, and else
/// as fast.
inline constexpr std::int64_t kExchangeTo = std::int64_t{64} << 10;
/// Ranks from which on a scatter is fetched, and a gather put, whatever its length: one rank that copies for all holds
/// them up.
inline constexpr Rank kManyCopy = 5;

/// What one of two ranks has for the other is copied by both, a part each, from this length on: else one core is idle.
inline constexpr std::int64_t kHalveFrom = std::int64_t{64} << 10;
/// But not of longer ones, which are faster in chunks that stay in the caches.
inline constexpr std::int64_t kHalveTo = std::int64_t{16} << 20;
/// Blocks of this length are put into the root's memory in a gather of more ranks.
inline constexpr std::int64_t kPutFrom = std::int64_t{128} << 10;

[[nodiscard]] constexpr bool is_halved(Operation operation, Rank ranks, std::int64_t block) {
  const bool gives = operation == Operation::Broadcast || operation == Operation::Gather ||
                     operation == Operation::Scatter;
  return gives && ranks == 2 && block >= kHalveFrom && block <= kHalveTo;
}

/// How much of that its reader fetches; the owner puts the rest. A root that has a block of its own to copy beside does
/// less, as that takes about a third of the time.
[[nodiscard]] constexpr std::int64_t fetched_of_halved(Operation operation, std::int64_t length) {
  switch (operation) {
    case Operation::Scatter:
      return length * 2 / 3;
    case Operation::Gather:
      return length / 3;
    default:
      return length / 2;
  }
}

/// Whether an operation on memory that peers do not see is done so, where they can; `block` is the longest that goes
/// from one rank to another.
[[nodiscard]] constexpr bool is_fetched(Operation operation, Rank ranks, std::int64_t block) {
  if (block < kFetchFrom) {
    return false;
  }
  if (is_halved(operation, ranks, block)) {
    return true;
  }
  switch (operation) {
    case Operation::Gather:
      return block >= kPutFrom && ranks > 2 && (block <= kFetchTo || ranks >= kManyCopy);
    case Operation::Scatter:
      return block <= kFetchTo || ranks >= kManyCopy;
    case Operation::Allgather:
    case Operation::Alltoall:
      return block <= kExchangeTo && ranks == 2;
    default:
      return false;
  }
}

}  // namespace trireme::comm
