// Passing: how what goes to peers is written, through the caches or past them: whichever is faster at present.
//
// That depends on where the ranks' cores are, which the host of a virtual machine may change at any time. Two ranks that
// pass 512 KiB each way, written and read, on two cores that share a cache: 25 us through the caches, 60 past them. On two
// that do not: 235 and 39, as every line has to be taken back from the core that read it last. So each kind of call
// (operation and length) is now and then done the other way a few times in a row, and what was faster is kept; of a long
// call, a few parts in a row. Where the other way turns out to be far slower this ends with the first piece; and it becomes
// rare where it never helps. One rank decides for all, as ranks that go different ways hold one another up, and neither
// would know what it waited for. Long calls in which one rank has all the data go the way that was given: it alone writes,
// and a try that is slow holds all up.
//
// One call at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "comm/kernels/kernels.h"
#include "trireme/schedule.h"

namespace trireme::comm {

class Passing {
 public:
  /// Begins with this way. Broadcasts and scatters of more than so many bytes keep to it.
  Passing(Stores first, std::int64_t longest_of_one);

  /// How all ranks shall write in the next call, which moves so many bytes. One rank says so, and judges by its own time.
  [[nodiscard]] Stores propose(Operation operation, std::int64_t bytes);
  /// All ranks have come to a call, and write this way.
  void begin(Stores way);
  /// Another share of it is done: how all shall write what comes next.
  [[nodiscard]] Stores next_part(double share);
  /// This rank is done with it.
  void end();
  /// It does not come to the call that was proposed for.
  void drop() { choice_ = nullptr; }

  /// Within a call. The rank that decides may find a way hopeless, and goes the other.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  [[nodiscard]] Stores way() const { return way_; }
  void follow(Stores way) { way_ = way; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::Barrier) + 1;
  static constexpr std::size_t kLengths = 13;  ///< each twice the one before

  /// For one kind of call.
  struct Choice {
    Stores way = Stores::Streaming;
    double pace = 0;         ///< nanoseconds for a byte, this way; 0: not measured yet
    double other_pace = 0;   ///< in the try under way
    std::int64_t calls = 0;  ///< since the last try; or parts of calls
    std::int64_t until = 0;  ///< the next
  };

  [[nodiscard]] bool is_trying() const {
    return choice_ != nullptr && choice_->calls >= choice_->until;
  }
  [[nodiscard]] Stores next_way() const;
  void copy_first(std::byte* to, const std::byte* from, std::size_t bytes);
  void finish_part(double bytes);
  void judge(double pace);
  void end_try(bool helped);

  std::array<std::array<Choice, kLengths>, kOperations> choices_{};
  Stores first_;
  std::int64_t longest_of_one_;
  Choice* choice_ =
      nullptr;  ///< of the call under way; nothing if it keeps to the way that was given
  Stores way_;
  double written_ = 0;  ///< nanoseconds for a byte that is written past the caches
  bool first_piece_ = false;
  double bytes_ = 0;  ///< of the call
  double left_ = 0;   ///< that are still to be passed
  Clock::time_point began_{};
};

}  // namespace trireme::comm
