// HostMemory: memory of this rank that the other ranks of its host can read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "trireme/schedule.h"

namespace trireme::comm {

inline constexpr std::int64_t kPage = 4096;
/// Gap, never touched, after every block. The L1 cache of some processors cannot distinguish addresses that differ only
/// in their highest bits: combining eight such vectors took three times as long.
inline constexpr std::int64_t kApart = 7 * kPage;

class HostMemory {
 public:
  HostMemory() = default;
  virtual ~HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// Zeroed, page-aligned. Callable from any thread. Throws Error(System) if memory is short.
  [[nodiscard]] virtual std::byte* allocate(std::int64_t bytes) = 0;
  /// Frees memory from allocate(). Callable from any thread.
  virtual void release(void* memory) noexcept = 0;
  /// The number by which peers find these bytes, or nothing if they cannot see them.
  [[nodiscard]] virtual std::optional<std::uint64_t> place_of(const void* memory,
                                                              std::size_t bytes) const = 0;
  /// The bytes of a peer on this host (by world rank) that have this number.
  [[nodiscard]] virtual std::byte* view(Rank peer, std::uint64_t place) const = 0;

  /// Whether this rank can copy from and to any memory of its peers, including private memory.
  [[nodiscard]] virtual bool can_fetch() const { return false; }
  /// Copies from an address in a peer's process. Slower than from shared memory, but needs no copy first. Requires
  /// can_fetch(). Throws Error(Peer) if the peer has exited.
  virtual void fetch(Rank peer, std::uint64_t address, std::span<std::byte> into) const;
  /// The reverse: copies to an address in a peer's process, while the peer waits for it.
  virtual void put(Rank peer, std::uint64_t address, std::span<const std::byte> from) const;
};

}  // namespace trireme::comm
