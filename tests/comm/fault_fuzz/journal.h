// Journal: what ranks report to the controlling process of a run, in memory that forked processes share. It survives a
// killed rank. Each rank's part has one writer, that rank's main thread; the control block has one writer, the
// controlling process.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace trireme::fault_fuzz {

inline constexpr std::size_t kMaxRanks = 16;
/// World ranks as bits.
using RankSet = std::uint32_t;
[[nodiscard]] inline bool contains(RankSet set, int rank) {
  return (set >> rank & 1) != 0;
}

/// Seconds on a clock that all processes share.
[[nodiscard]] inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A group is identified by its generation (0 is the world, each shrink() adds one) and its members.
struct Event {
  enum class Kind {
    Joined,
    LongCall,      ///< a call returned, after a while
    CallFailed,    ///< a call threw CommError
    Shrinking,     ///< entered shrink() of this generation
    Shrunk,        ///< shrink() returned `members` as this generation
    ShrinkFailed,  ///< shrink() of this generation threw CommError
    BarrierBegun,  ///< entered the first barrier of this generation
    BarrierDone,
    Finished,     ///< all members agreed to end
    WrongResult,  ///< a call returned a wrong result
    Unexpected,   ///< an exception other than CommError
    Leaving,      ///< starts destroying its World
    Left,
  };
  Kind kind = Kind::Joined;
  int generation = 0;
  std::int64_t step = 0;
  double begin = 0;  ///< when the call was entered
  double time = 0;   ///< when this was written
  RankSet members = 0;
  int fault = -1;  ///< CommFault of an error
  RankSet culprits = 0;
  std::array<char, 16> call{};   ///< what was called
  std::array<char, 240> text{};  ///< of an error

  [[nodiscard]] std::string_view call_name() const { return call.data(); }
};

template <std::size_t n>
void copy_text(std::string_view from, std::array<char, n>& into) {
  const std::size_t length = std::min(from.size(), n - 1);
  std::copy_n(from.begin(), length, into.begin());
  into[length] = '\0';
}

struct RankJournal {
  static constexpr std::size_t kMaxEvents = 200;
  std::array<Event, kMaxEvents> events;
  std::atomic<std::size_t> written{0};  ///< may exceed kMaxEvents: the rest was dropped
  std::atomic<std::int64_t> steps{0};
  /// The call that the rank is in; 0: none.
  std::atomic<double> waiting_since{0};
  std::atomic<std::int64_t> waiting_generation{0};
  std::atomic<const char*> waiting_in{""};  ///< a literal; forked processes agree on addresses

  void write(Event event) {
    const std::size_t at = written.load(std::memory_order_relaxed);
    event.time = now();
    if (at < kMaxEvents) {
      events[at] = event;
    }
    written.store(at + 1, std::memory_order_release);
  }
};

struct Journal {
  std::array<RankJournal, kMaxRanks> ranks;
  /// Set by the controlling process.
  std::atomic<bool> end{false};
  std::array<std::atomic<double>, kMaxRanks> idle_until{};
};

}  // namespace trireme::fault_fuzz
