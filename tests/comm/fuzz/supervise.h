// Runs a sequence in a separate process, under a watchdog.
#pragma once

#include <string>

#include "sequence.h"
#include "trireme/units.h"

namespace trireme::fuzz {

struct Outcome {
  enum class Kind { Passed, Wrong, Crashed, Hung } kind = Kind::Passed;
  std::string details;  ///< what was reported, and what the ranks wrote to standard error
  Seconds took{};
  [[nodiscard]] bool passed() const { return kind == Kind::Passed; }
};
[[nodiscard]] std::string_view to_text(Outcome::Kind kind);

/// Forks a process that executes the sequence; kills it, and with it the ranks, after the timeout.
/// Call it before creating any thread.
[[nodiscard]] Outcome run_apart(const Sequence& sequence, Seconds timeout);

}  // namespace trireme::fuzz
