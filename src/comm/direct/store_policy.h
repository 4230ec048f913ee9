// StorePolicy: chooses between cached and streaming (cache-bypassing) stores for data that peers read, whichever is
// currently faster.
//
// That depends on which cores the ranks run on, which the host of a virtual machine may change at any time. Two ranks
// that each pass 512 KiB to the other, written and read, take 25 us through the caches and 60 us past them on two cores
// that share a cache; on two that do not, 235 and 39, because every line has to be fetched from the core that read it
// last. So for each kind of call (operation and length) the policy occasionally tries the alternative a few times in a
// row, and keeps the faster one; in a long call, for a few parts in a row. A trial that turns out far slower ends with
// its first piece, and trials become rare if they never help. One rank decides for all: ranks with different stores
// delay one another, which would distort their measurements. Long calls in which one rank has all the data use the
// initial choice: that rank alone writes, and a slow trial delays all.
//
// One call at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/indexed_vector.h"
#include "comm/kernels/kernels.h"
#include "trireme/schedule.h"

namespace trireme::comm {

class StorePolicy {
 public:
  /// Starts with these stores. Broadcasts and scatters of more than `longest_of_one` bytes keep them.
  StorePolicy(Stores first, std::int64_t longest_of_one);

  /// How all ranks should write in the next call, which moves this many bytes. One rank decides, and judges by its own
  /// time.
  [[nodiscard]] Stores propose(Operation operation, std::int64_t bytes);
  /// All ranks have begun the call, and use these stores.
  void begin(Stores stores);
  /// Another part of the call is done: returns how all ranks should write the next one.
  [[nodiscard]] Stores next_part(double share);
  /// This rank is done with it.
  void end();
  /// The call that was proposed for takes another path.
  void drop() { choice_ = nullptr; }

  /// Copies within a call. The deciding rank may find its stores hopeless, and switch.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  [[nodiscard]] Stores stores() const { return stores_; }
  void follow(Stores stores) { stores_ = stores; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kOperations = position_of(Operation::Barrier) + 1;
  static constexpr std::size_t kLengths = 13;  ///< each twice the previous one

  /// For one kind of call.
  struct Choice {
    Stores stores = Stores::Streaming;
    double pace = 0;         ///< nanoseconds per byte with these stores; 0: not measured yet
    double other_pace = 0;   ///< in the current trial
    std::int64_t calls = 0;  ///< calls, or parts of calls, since the last trial
    std::int64_t until = 0;  ///< when the next trial starts
  };

  [[nodiscard]] bool is_trying() const {
    return choice_ != nullptr && choice_->calls >= choice_->until;
  }
  [[nodiscard]] Stores next_stores() const;
  void copy_first(std::byte* to, const std::byte* from, std::size_t bytes);
  void finish_part(double bytes);
  void judge(double pace);
  void end_try(bool helped);

  IndexedArray<Operation, std::array<Choice, kLengths>, kOperations> choices_{};
  Stores first_;
  std::int64_t longest_of_one_;
  Choice* choice_ = nullptr;  ///< of the current call; nullptr if it keeps the initial stores
  Stores stores_;
  double written_ = 0;  ///< nanoseconds per byte written past the caches
  bool first_piece_ = false;
  double bytes_ = 0;  ///< of the call
  double left_ = 0;   ///< not passed yet
  Clock::time_point began_{};
};

}  // namespace trireme::comm
