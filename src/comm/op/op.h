// Op: something a rank is in the middle of. An operation is a state machine that does a little each time it is asked,
// so one thread can wait for one of them or keep many moving. Only the Engine waits for operations, and it ends every
// wait: an operation cannot forget its time limit.
#pragma once

#include "trireme/units.h"

namespace trireme::comm {

enum class Progress {
  Done,
  Moved,  ///< something was done; ask again at once
  Stuck,  ///< nothing can be done until a peer does something
};

class Op {
 public:
  Op() = default;
  virtual ~Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  /// Does what can be done now. Never waits. Not called again after Done or a throw.
  [[nodiscard]] virtual Progress advance() = 0;
  /// Called now and then while stuck, with how long nothing has moved. Throws CommError if what it waits for cannot
  /// arrive any more.
  virtual void check(Seconds stuck) = 0;
  /// Nothing has moved for longer than an operation may wait. Throws CommError that names who is late.
  virtual void expire(Seconds stuck) = 0;
  /// Whether advance() has nothing to do until the mailbox completes the operation's message.
  [[nodiscard]] virtual bool awaits_mailbox() const { return false; }
};

}  // namespace trireme::comm
