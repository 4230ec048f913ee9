// Bell: lets a rank sleep, without using CPU, until a peer has data for it.
//
// The two words are in memory that all ranks of the host share. A rank that is about to sleep announces it, checks once
// more whether its wait is over, and only then sleeps; a peer first stores its data, then checks whether anyone
// announced. Both use sequentially consistent operations, so one of the two always sees the other: no wake-up is lost,
// and a peer whose reader is awake pays for one load of a cached line.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace trireme::comm {

struct alignas(64) Bell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> sleepers{0};

  /// Wakes all sleepers, if any. Call it after the store that they wait for; that store must be seq_cst.
  void ring() {
    if (sleepers.load(std::memory_order_seq_cst) != 0) {
      ring_loudly();
    }
  }
  /// The same after any store. True if someone was sleeping.
  bool ring_after_any_store() {
    rings.fetch_add(1, std::memory_order_seq_cst);  // also orders what precedes it
    const bool someone = sleepers.load(std::memory_order_seq_cst) != 0;
    if (someone) {
      ring_loudly();
    }
    return someone;
  }
  /// Wakes all sleepers without checking for any.
  void ring_loudly();

  /// Announces that this thread will sleep: returns what sleep() needs. Check the condition again before sleeping.
  [[nodiscard]] std::uint32_t announce();
  /// Sleeps until a ring after `token`, or the timeout.
  void sleep(std::uint32_t token, std::chrono::nanoseconds at_most);
  /// Undoes announce().
  void withdraw() { sleepers.fetch_sub(1, std::memory_order_seq_cst); }
};

}  // namespace trireme::comm
