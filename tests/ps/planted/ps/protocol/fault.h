// Replaces src/ps/protocol/fault.h where the tests compile the protocol with faults: a test selects one at run time.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace trireme::ps {

enum class Fault {
  AcknowledgeAtHead,
  AcceptStaleEpoch,
  ServeWithoutLease,
  DropPullsWithoutLease,
  ServeAtHead,
  ServeUnsynced,
  IgnoreSequences,
  SnapshotWithoutSequences,
  SkipGaps,
  IgnoreIncarnation,
  ReuseEpoch,
  ForgetViews,
  ExpireEarly,
  AdmitLearnerEarly,
  DropLastSynced,
  IgnoreReadMyWrites,
  RenumberRetries,
  StartEarly,
  ShareProcess,
  ClockBeforeAcknowledged,
};

inline std::optional<Fault> selected_fault;  // NOLINT: the tests that set it run one at a time

[[nodiscard]] inline bool planted(Fault fault) {
  return selected_fault == fault;
}

}  // namespace trireme::ps
