// Requests to stop (Ctrl-C, `kill`, `docker stop`, a closed terminal) as a flag, shared with forked processes. One
// thread sets it up.
#pragma once

#include <array>
#include <csignal>

#include "trireme/shared_number.h"

namespace trireme::cli {

/// The signals that ask a program to stop.
inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP};

/// The reply to the first stop signal, besides setting the flag.
struct StopReply {
  const char* text;                     ///< printed on stderr
  bool at_once = false;                 ///< ends the program, with exit_code_of(signal)
  const SharedNumber* until = nullptr;  ///< once it is set, `next` is the reply
  const StopReply* next = nullptr;
};

/// While it exists, the first stop signal sets `flag` to its number and acknowledges on stderr; the next one ends the
/// program as usual. Forked processes inherit it, so a signal to one reaches all. Signals that the caller ignores
/// (nohup) stay ignored. Only one at a time, or nested with the same flag. The flag and the reply must outlive it.
class InterruptGuard {
 public:
  InterruptGuard(SharedNumber& flag, const StopReply& reply);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  std::array<struct sigaction, kStopSignals.size()> before_{};
  const StopReply* before_reply_ = nullptr;
};

/// A shell's exit code for a program killed by a signal: 130 for Ctrl-C, 143 for SIGTERM.
[[nodiscard]] constexpr int exit_code_of(int signal) {
  constexpr int kBySignal = 128;
  return kBySignal + signal;
}

}  // namespace trireme::cli
