// Ctrl-C as a flag, for this process and those that it forks. One thread sets it up.
#pragma once

#include <csignal>

#include "base/shared_number.h"

namespace trireme::cli {

/// While it lives, the first Ctrl-C only sets `flag` to 1; the next ends the program as usual. Forked processes inherit
/// it, so an interrupt of one reaches all. One at a time, or nested with the same flag, which must outlive it.
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
