#include "comm/direct/store_policy.h"

#include <algorithm>
#include <bit>

#include "base/indexed_vector.h"

namespace trireme::comm {
namespace {

/// The number of calls, or parts of long ones, before the first trial; the minimum and maximum between trials; and the
/// length of a trial: it takes several calls for memory to reach the state typical of a kind of store.
constexpr std::int64_t kFirstCalls = 2;
constexpr std::int64_t kFewCalls = 8;
constexpr std::int64_t kManyCalls = 1024;
constexpr std::int64_t kTryCalls = 4;
/// Ends a trial of cached stores if this many bytes take this many times as long as with streaming stores.
constexpr std::size_t kTriedBytes = std::size_t{32} << 10;
constexpr double kTooSlow = 5;
/// The alternative must be this much faster; stores that have become this much slower are reconsidered.
constexpr double kFaster = 0.9;
constexpr double kSlower = 1.5;
constexpr std::int64_t kShortestCall = std::int64_t{32} << 10;

double pace_of(std::chrono::steady_clock::duration time, double bytes) {
  return std::chrono::duration<double, std::nano>(time).count() / bytes;
}

/// Adapts immediately to a faster measurement, and slowly to a slower one: a rank may lose its core for a while.
double tracked(double before, double measured) {
  return before == 0 || measured < before ? measured
                                          : before + (std::min(measured, 2 * before) - before) / 8;
}

Stores other_than(Stores stores) {
  return stores == Stores::Cached ? Stores::Streaming : Stores::Cached;
}

}  // namespace

StorePolicy::StorePolicy(Stores first, std::int64_t longest_of_one)
    : first_(first), longest_of_one_(longest_of_one), stores_(first) {
  for (auto& lengths : choices_) {
    lengths.fill({.stores = first, .until = kFirstCalls});
  }
}

Stores StorePolicy::propose(Operation operation, std::int64_t bytes) {
  const bool of_one = operation == Operation::Broadcast || operation == Operation::Scatter;
  if (of_one && bytes > longest_of_one_) {
    choice_ = nullptr;
    return first_;
  }
  const auto length = std::bit_width(static_cast<std::uint64_t>(bytes / kShortestCall));
  choice_ = &choices_[operation][std::min<std::size_t>(kLengths - 1, length)];
  bytes_ = static_cast<double>(std::max<std::int64_t>(bytes, 1));
  left_ = bytes_;
  return next_stores();
}

/// The stores of the current choice.
Stores StorePolicy::next_stores() const {
  return is_trying() ? other_than(choice_->stores) : choice_->stores;
}

void StorePolicy::begin(Stores stores) {
  stores_ = stores;
  if (choice_ != nullptr) {
    first_piece_ = true;
    began_ = Clock::now();
  }
}

void StorePolicy::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (choice_ != nullptr && first_piece_ && bytes >= kTriedBytes) {
    first_piece_ = false;
    copy_first(to, from, kTriedBytes);
    copy_bytes(to + kTriedBytes, from + kTriedBytes, bytes - kTriedBytes, stores_);
  } else {
    copy_bytes(to, from, bytes, stores_);
  }
}

/// A piece of the same length in each call, for comparison.
void StorePolicy::copy_first(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto begin = Clock::now();
  copy_bytes(to, from, bytes, stores_);
  const double pace = pace_of(Clock::now() - begin, static_cast<double>(bytes));
  if (stores_ == Stores::Streaming) {
    written_ = tracked(written_, pace);
  } else if (is_trying() && pace > kTooSlow * written_) {
    stores_ = Stores::Streaming;
    end_try(false);
  }
}

Stores StorePolicy::next_part(double share) {
  if (choice_ != nullptr && share > 0) {
    finish_part(share * bytes_);
    left_ -= share * bytes_;
    begin(next_stores());
  }
  return stores_;
}

void StorePolicy::end() {
  if (choice_ != nullptr) {  // otherwise another rank judges
    finish_part(std::max(left_, 1.0));
    choice_ = nullptr;
  }
}

void StorePolicy::finish_part(double bytes) {
  const double pace = pace_of(Clock::now() - began_, bytes);
  if (stores_ == choice_->stores) {
    ++choice_->calls;
    if (choice_->pace != 0 && pace > kSlower * choice_->pace) {
      choice_->until = std::min(choice_->until, choice_->calls + kFewCalls);
    }
    choice_->pace = tracked(choice_->pace, pace);
  } else {
    judge(pace);
  }
}

/// After each call, or part of a call, of a trial.
void StorePolicy::judge(double pace) {
  const std::int64_t calls = ++choice_->calls - choice_->until;
  if (calls <= kTryCalls / 2) {
    return;
  }
  choice_->other_pace = choice_->other_pace == 0 ? pace : std::min(choice_->other_pace, pace);
  if (calls >= kTryCalls) {
    end_try(choice_->other_pace < kFaster * choice_->pace);
  }
}

void StorePolicy::end_try(bool helped) {
  if (helped) {
    choice_->stores = other_than(choice_->stores);
    choice_->pace = choice_->other_pace;
  }
  choice_->until = helped ? kFewCalls : std::clamp(2 * choice_->until, kFewCalls, kManyCalls);
  choice_->calls = 0;
  choice_->other_pace = 0;
}

}  // namespace trireme::comm
