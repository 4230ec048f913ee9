// The sizes at which direct operations (direct.h) switch algorithms, in bytes. Shared with their cost model and the
// probe.
#pragma once

#include <cstdint>

#include "trireme/schedule.h"

namespace trireme::comm {

/// Ranks do not write to the same cache line.
inline constexpr std::int64_t kLine = 64;
/// Inputs up to this length are copied even if peers could see them: one wait instead of two.
inline constexpr std::int64_t kCopyAnyway = 4096;
/// Every rank combines inputs up to this length for itself.
inline constexpr std::int64_t kCombineAlone = 16384;
/// Inputs up to this length are staged as a whole; longer ones, in chunks.
inline constexpr std::int64_t kWholeTo = std::int64_t{64} << 10;
/// The same if two ranks combine them, since in chunks each does half; and if more than this many do, since each would
/// read everything.
inline constexpr std::int64_t kCombinedWholeTo = std::int64_t{32} << 10;
inline constexpr Rank kFewCombine = 8;

[[nodiscard]] constexpr bool is_staged_whole(Operation operation, Rank ranks, std::int64_t input) {
  const bool all = operation == Operation::Allreduce;
  const bool combined = all || operation == Operation::Reduce;
  const bool chunked_soon = (combined && ranks == 2) || (all && ranks > kFewCombine);
  return input <= (chunked_soon ? kCombinedWholeTo : kWholeTo);
}

/// Chunks of a long call after which rank 0 reconsiders how they are written (store_policy.h).
inline constexpr std::int64_t kPartWindows = 4;

/// Longer results bypass the caches.
inline constexpr std::int64_t kStreamAbove = std::int64_t{4} << 20;
/// So do longer vectors that only need to be copied: the ranks that have them write them to where they are needed (in a
/// broadcast all ranks, a part each); shorter ones are read by the ranks that need them. If only one rank would read,
/// writing starts at this smaller size.
inline constexpr std::int64_t kSharedWriteAbove = std::int64_t{32} << 10;

/// Whether that applies, in memory that all ranks see; `bytes` are of the vector.
[[nodiscard]] constexpr bool is_shared_write(Operation operation, Rank ranks, std::int64_t bytes) {
  switch (operation) {
    case Operation::Gather:
      return bytes > kSharedWriteAbove;
    case Operation::Broadcast:
      return bytes > (ranks == 2 ? kSharedWriteAbove : kStreamAbove);
    case Operation::Allgather:
      return bytes > kStreamAbove;
    default:
      return false;
  }
}

/// From this block length on, the kernel copies from or to a process that does not share its memory, if each block has
/// one reader.
inline constexpr std::int64_t kFetchFrom = std::int64_t{32} << 10;
/// Longer ones are staged, unless there are many ranks.
inline constexpr std::int64_t kFetchTo = std::int64_t{2} << 20;
/// The same if two ranks have data for each other, since staging in cache is faster if possible, and otherwise as fast.
inline constexpr std::int64_t kExchangeTo = std::int64_t{64} << 10;
/// From this many ranks on, a scatter of any length is fetched and a gather put: one rank that copies for all would be
/// the bottleneck.
inline constexpr Rank kManyCopy = 5;

/// From this length on, both ranks copy a part of the data: otherwise one core would be idle.
inline constexpr std::int64_t kHalveFrom = std::int64_t{64} << 10;
/// Longer ones are faster in chunks that stay in cache.
inline constexpr std::int64_t kHalveTo = std::int64_t{16} << 20;
/// From this block length on, a gather of more ranks puts blocks into the root's memory.
inline constexpr std::int64_t kPutFrom = std::int64_t{128} << 10;

[[nodiscard]] constexpr bool is_halved(Operation operation, Rank ranks, std::int64_t block) {
  const bool gives = operation == Operation::Broadcast || operation == Operation::Gather ||
                     operation == Operation::Scatter;
  return gives && ranks == 2 && block >= kHalveFrom && block <= kHalveTo;
}

/// The part that the reader fetches; the owner puts the rest. A root that also copies a block of its own fetches less,
/// since that takes about a third of the time.
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

/// Whether the kernel copies data for an operation on memory that peers do not see, if it can; `block` is the longest
/// block that goes from one rank to another.
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
