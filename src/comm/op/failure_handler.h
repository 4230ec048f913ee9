// FailureHandler: how an operation learns that its group has failed, and how it fails the group. Called only while an
// operation waits or fails, never on the fast path.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

/// Places are ranks in the group; culprits are world ranks.
class FailureHandler {
 public:
  FailureHandler() = default;
  virtual ~FailureHandler() = default;
  FailureHandler(const FailureHandler&) = delete;
  FailureHandler& operator=(const FailureHandler&) = delete;

  /// Throws CommError if a member died or stopped, if one left that is needed according to `missing`, or if the group
  /// failed elsewhere. `what` names the operation in the message.
  virtual void check_members(const std::function<bool(Rank place)>& missing,
                             const std::function<std::string()>& what) = 0;
  /// Marks the group as failed, notifies the members, and throws. If it has already failed, throws the original error.
  [[noreturn]] virtual void fail(CommFault fault, std::vector<Rank> culprits,
                                 const std::string& message) = 0;
  /// Fails the group because these members are alive but did not reach the operation in time.
  [[noreturn]] virtual void fail_late(const std::vector<Rank>& places, Seconds stuck,
                                      const std::string& what) = 0;
  /// This rank cannot make its call, or its own reduction threw: notifies the members and marks the group as failed.
  /// Does not throw.
  virtual void abandon(const Call& call, const std::string& why) = 0;
  /// Blocks until no live member can still use this rank's buffers in that call; at most for the deadline. For an
  /// operation that failed after it lent them.
  virtual void await_release(std::uint64_t sequence) = 0;
  /// The other ranks declared this one dead.
  [[noreturn]] virtual void throw_declared_dead() = 0;
};

}  // namespace trireme::comm
