// Statuses of the C interface: exceptions turned into statuses, and the last error of each thread. Callable from any
// thread.
#pragma once

#include "trireme/trireme.h"

namespace trireme::comm {

/// Call while an exception is being handled: stores it as the calling thread's last error and returns its status.
[[nodiscard]] trireme_status store_current_exception() noexcept;

/// The status of an action.
template <class Action>
[[nodiscard]] trireme_status guarded(const Action& action) noexcept {
  try {
    action();
    return TRIREME_OK;
  } catch (...) {
    return store_current_exception();
  }
}

}  // namespace trireme::comm
