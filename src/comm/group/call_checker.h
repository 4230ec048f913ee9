// CallChecker: checks and numbers the calls of a group. One call at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/group/algorithm_choice.h"
#include "comm/op/membership.h"
#include "comm/scheduled/schedule_cache.h"
#include "comm/wire/geometry.h"
#include "comm/wire/record.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

/// A checked call: everything known about it before it runs.
struct Prepared {
  Call call{};
  Geometry geometry{};
  Method method{};
  Record record{};
};

class CallChecker {
 public:
  /// Calls are numbered from `last_sequence` + 1. The arguments outlive this object.
  CallChecker(const Membership& members, AlgorithmChoice& choice, ScheduleCache& schedules,
              std::uint64_t last_sequence)
      : members_(members), choice_(choice), schedules_(schedules), sequence_(last_sequence) {}

  /// Checks the call and assigns its number. Skips the check if the call repeats the previous one,
  /// as in a training loop. The result is valid until the next call. Throws Error(Usage).
  [[nodiscard]] const Prepared& prepare(const Call& call);
  /// The number of the last call. Callable from any thread.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(); }

 private:
  [[nodiscard]] std::uint64_t next_sequence() { return sequence_.fetch_add(1) + 1; }
  void require_possible(const Call& call, const Geometry& geometry, const Method& method);

  const Membership& members_;
  AlgorithmChoice& choice_;
  ScheduleCache& schedules_;
  std::atomic<std::uint64_t> sequence_;
  Prepared prepared_;
  bool may_repeat_ = false;  ///< prepared_ belongs to a call that can be recognized
};

}  // namespace trireme::comm
