// Ctrl-C as a flag, shared with forked processes. One thread sets it up.
#pragma once

#include <csignal>

#include "trireme/shared_number.h"

namespace trireme::cli {

/// While it exists, the first Ctrl-C only sets `flag` to 1; the next one ends the program as usual. Forked processes
/// inherit it, so interrupting one reaches all. Only one at a time, or nested with the same flag, which must outlive
/// it.
class InterruptGuard {
 public:
  explicit InterruptGuard(SharedNumber& flag);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace trireme::cli
