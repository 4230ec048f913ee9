// FailureState: whether a group failed, and why. The first rank to detect a failure notifies the other members, and all
// report the same reason. Callable from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/direct/direct_state.h"
#include "comm/op/failure_handler.h"
#include "comm/op/membership.h"
#include "comm/scheduled/mismatch_detector.h"
#include "comm/world/departures.h"
#include "comm/world/world_core.h"

namespace trireme::comm {

class FailureState final : public FailureHandler {
 public:
  /// All of these outlive the group.
  struct Options {
    WorldCore& world;
    const Membership& members;
    DirectState* direct = nullptr;  ///< if all members see one another's memory
    MismatchDetector& mismatches;
    std::function<void()> on_death;  ///< called once the group has failed, perhaps more than once
  };
  explicit FailureState(Options options);

  [[nodiscard]] bool is_dead() const { return dead_.load(std::memory_order_acquire); }
  /// Throws CommError(Dead) if the group has failed.
  void require_alive() const {
    if (is_dead()) {
      throw_dead();
    }
  }
  /// This rank shrinks the group: a working group fails on all members, which must shrink it too.
  void abandon_to_shrink();
  /// A member marked the group as failed.
  void receive(FailureNotice notice);
  /// This rank could not create a group from this one. Members that could would wait for it there, so it fails that
  /// group for them, by its context.
  void refuse(std::uint64_t context, const CommError& error);

  void check_members(const std::function<bool(Rank place)>& missing,
                     const std::function<std::string()>& what) override;
  [[noreturn]] void fail(CommFault fault, std::vector<Rank> culprits,
                         const std::string& message) override;
  [[noreturn]] void fail_late(const std::vector<Rank>& places, Seconds stuck,
                              const std::string& what) override;
  void abandon(const Call& call, const std::string& why) override;
  void await_release(std::uint64_t sequence) override;
  [[noreturn]] void throw_declared_dead() override { world_.throw_declared_dead(); }

 private:
  [[noreturn]] void throw_dead() const;
  [[nodiscard]] std::string last_call_of(Rank place) const;
  [[noreturn]] void fail_for(Rank place, CommFault fault, const std::string& why,
                             const std::string& what);
  [[noreturn]] void fail_declared_dead(Rank by, const std::string& what);
  [[nodiscard]] bool is_final(Rank place);
  [[nodiscard]] bool announce_failure(CommFault fault, Rank culprit, const std::string& message);
  void send(std::uint64_t context, const FailureNotice& notice);
  void check_notices();

  WorldCore& world_;
  const Membership& members_;
  DirectState* const direct_;
  MismatchDetector& mismatches_;
  const std::function<void()> on_death_;
  std::atomic<bool> dead_{false};
  mutable Mutex mutex_;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);
  std::optional<FailureNotice> notice_ TRIREME_GUARDED_BY(mutex_);
  Departures departures_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
