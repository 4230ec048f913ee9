// Requests to stop (Ctrl-C, `kill`, `docker stop`, a closed terminal) as a flag, shared with forked processes. One
// thread sets it up.
#pragma once

#include <array>
#include <csignal>

#include "trireme/shared_number.h"

namespace trireme::cli {

/// The signals that ask a program to stop.
inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP};

/// While it exists, the first stop signal sets `flag` to its number and says on stderr what follows, a literal; the next one
/// ends the program as usual. Forked processes inherit it, so a signal to one reaches all. Signals that the caller ignores
/// (nohup) stay ignored. Only one at a time, or nested with the same flag, which must outlive it.
class InterruptGuard {
 public:
  explicit InterruptGuard(SharedNumber& flag,
                          const char* what_follows = "saves a checkpoint after this step");
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  std::array<struct sigaction, kStopSignals.size()> before_{};
};

/// What a shell reports for a program that a signal ended: 130 for Ctrl-C, 143 for SIGTERM.
[[nodiscard]] constexpr int exit_code_of(int signal) {
  constexpr int kBySignal = 128;
  return kBySignal + signal;
}

}  // namespace trireme::cli
