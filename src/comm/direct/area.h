// Area: the data that each rank of a group exposes to the others in shared memory, for direct operations. Only the
// owner writes to it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/indexed_vector.h"
#include "comm/direct/staging.h"
#include "comm/kernels/combine.h"
#include "comm/wire/record.h"

namespace trireme::comm {

/// Bytes stored in the slot itself, on the cache line of the stamp.
inline constexpr std::size_t kInlineBytes = 40;
/// The largest group that can run direct operations: what fits in the tables.
inline constexpr std::size_t kMaxDirectRanks = kTableBytes / 2 / sizeof(Extent);

/// What peers find at a slot's input or output.
enum class Offer : std::uint8_t {
  Nothing,  ///< peers cannot see it, or it is not meant for them
  Copy,     ///< a copy made for them; the owner does not wait for its readers
  Buffer,   ///< the caller's own buffer; the owner waits
  Address,  ///< the same, where peers cannot map it but can copy from or to it through the kernel
  /// An input that the owner did not copy because only the owner combines it: the root of a reduce. Peers must not read
  /// it.
  Withheld,
};

/// What a rank announces at the start of an operation. There are two slots, used alternately: a rank starts operation n
/// + 2 only when everyone is done with n. Usually it knows because it has seen everyone start n + 1; after an operation
/// that it left early, it checks `finished` of the others.
struct Slot {
  alignas(64) std::atomic<std::uint64_t> stamp{0};  ///< the sequence number; stored last
  std::uint64_t fingerprint = 0;                    ///< compared(record)
  Offer input_offer = Offer::Nothing;
  Offer output_offer = Offer::Nothing;
  /// How all ranks write data for others, as rank 0 decides (store_policy.h): to staging memory, to outputs.
  std::atomic<Stores> staging{Stores::Streaming};  ///< may change between chunks
  Stores sharing = Stores::Cached;
  alignas(8) std::array<std::byte, kInlineBytes> data{};
  alignas(64) std::uint64_t input = 0;  ///< from here on read only when needed
  std::uint64_t output = 0;
  alignas(64) std::array<std::byte, 128> apart{};  ///< separates slots: see Area::records
};
static_assert(offsetof(Slot, input) == 64, "a small operation moves one line from rank to rank");

/// A rank's progress in an operation, in chunks: (sequence << kChunkBits) + chunks done. An operation has up to three
/// stages per chunk.
enum class Stage : std::uint8_t { Staged, Worked, Taken };
inline constexpr std::size_t kStages = 3;
inline constexpr unsigned kChunkBits = 24;

/// How many of the last calls that it left early a rank keeps, to report a mismatch. The older half is still there
/// while the others are in the call after them: no rank is more than a call ahead.
inline constexpr std::size_t kEarly = 8;

/// One per rank and group; its staging memory follows.
struct Area {
  std::array<Slot, 2> slots;
  alignas(64) IndexedArray<Stage, std::atomic<std::uint64_t>, kStages> clocks{};
  /// The last operation that this rank has finished: it no longer reads any peer's area for it.
  std::atomic<std::uint64_t> finished{0};
  /// Set when this rank marks the group as failed, after the reason: culprit << 8 | CommFault + 1.
  std::atomic<std::uint64_t> failed{0};
  alignas(64) std::array<char, 2048> why{};  ///< null-terminated
  /// The records of the slots. Kept apart from the slots, as the slots are from one another: a peer that reads a stamp
  /// also prefetches the adjacent cache lines, and each would have to be invalidated there before it is written.
  std::array<Record, 2> records;
  /// The last calls that this rank left before it saw the others' calls, by number; each is written before the stamp of
  /// the call after it.
  std::array<Record, kEarly> early;

  [[nodiscard]] std::byte* shot(std::uint64_t sequence) {
    return memory() + (sequence % 2) * (kShotBytes + kTableBytes);
  }
  /// The elements that this rank sends to and expects from each rank, if every pair has its own size.
  [[nodiscard]] Extent* sends(std::uint64_t sequence) {
    return reinterpret_cast<Extent*>(shot(sequence) + kShotBytes);
  }
  [[nodiscard]] Extent* receives(std::uint64_t sequence) {
    return sends(sequence) + kMaxDirectRanks;
  }
  [[nodiscard]] std::byte* chunk(std::int64_t offset) {
    return memory() + 2 * (kShotBytes + kTableBytes) + offset;
  }
  [[nodiscard]] std::byte* result(std::int64_t offset) {
    return chunk(static_cast<std::int64_t>(kRoundBytes) + offset);
  }

 private:
  [[nodiscard]] std::byte* memory() { return reinterpret_cast<std::byte*>(this + 1); }
};
inline constexpr std::size_t kAreaBytes =
    sizeof(Area) + 2 * (kShotBytes + kTableBytes) + 2 * kRoundBytes;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::is_trivially_copyable_v<Record>);

}  // namespace trireme::comm
