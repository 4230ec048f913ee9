// Record: everything that is known of one run once it is over. The judge reads nothing else.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "comm/fault_fuzz/journal.h"
#include "comm/fault_fuzz/scenario.h"

namespace trireme::fault_fuzz {

/// A fault as it was injected. Disconnecting and reconnecting take time: each happened somewhere
/// between two moments.
struct Strike {
  Fault fault;
  double began_after = 0;
  double began_before = 0;
  /// Infinite while the fault lasts.
  double ended_after = std::numeric_limits<double>::infinity();
  double ended_before = std::numeric_limits<double>::infinity();

  [[nodiscard]] double shortest() const { return ended_after - began_before; }
  [[nodiscard]] double longest() const { return ended_before - began_after; }
};

struct RankRecord {
  enum class End {
    Exited,    ///< on its own
    Signaled,  ///< by a signal that the run did not send
    Killed,    ///< by a fault
    Hung,      ///< had not ended when the run was over; killed
    Stopped,   ///< the same, but a fault had stopped it for good
  };
  std::vector<Event> events;
  std::size_t events_dropped = 0;
  std::int64_t steps = 0;
  End end = End::Exited;
  int status = 0;       ///< exit code, or signal
  double ended_at = 0;  ///< or when it was killed
  /// The call that it was in at its end; 0: none.
  double waiting_since = 0;
  int waiting_generation = 0;
  std::string waiting_in;
};

struct Record {
  double started_at = 0;  ///< when all had joined
  std::vector<RankRecord> ranks;
  std::vector<Strike> strikes;
  double lateness = 0;  ///< the longest that the machine kept a thread from running, in seconds
  std::vector<std::string> left_behind;
};

}  // namespace trireme::fault_fuzz
