// Op: something a rank is in the middle of. An operation is a state machine that goes on a little each
// time it is asked; so one thread can wait for one of them, or keep many going.
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
  /// Called now and then while stuck, with how long nothing has moved. Throws CommError if what is
  /// waited for cannot come any more, or has not come in time.
  virtual void check(Seconds stuck) = 0;
};

}  // namespace trireme::comm
