// Op: an operation in flight. It is a state machine that makes a little progress on each call, so one thread can wait
// for one operation or drive many. Only the Engine waits for operations, and it bounds every wait: an operation cannot
// forget its time limit.
#pragma once

#include "trireme/units.h"

namespace trireme::comm {

enum class Progress {
  Done,
  Moved,  ///< made progress; call again at once
  Stuck,  ///< blocked until a peer does something
};

class Op {
 public:
  Op() = default;
  virtual ~Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  /// Does what is possible now. Never waits. Not called again after Done or a throw.
  [[nodiscard]] virtual Progress advance() = 0;
  /// Called periodically while stuck, with the time since the last progress. Throws CommError if what it waits for can
  /// no longer arrive.
  virtual void check(Seconds stuck) = 0;
  /// No progress for longer than an operation may wait. Throws CommError naming the late ranks.
  virtual void expire(Seconds stuck) = 0;
  /// Whether advance() has nothing to do until the mailbox completes the operation's message.
  [[nodiscard]] virtual bool awaits_mailbox() const { return false; }
};

}  // namespace trireme::comm
