// Roster: the ranks of a job that have joined, as the job's store records them. It finds rank numbers
// that are used twice, ranks with different options and ranks that do not join, and tells all ranks
// what is wrong. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "comm/rendezvous/store.h"
#include "trireme/comm.h"
#include "trireme/error.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// This machine's name, as people know it.
[[nodiscard]] std::string machine_name();

/// Another process has the rank of this one. It concerns this process alone.
class RankTaken : public Error {
 public:
  explicit RankTaken(const std::string& what) : Error(ErrorKind::Usage, what) {}
};

/// For a process that knows already that another has its rank: waits until that one has claimed it.
/// Throws RankTaken, or Error(Peer) at the deadline.
[[noreturn]] void report_rank_taken(Store& store, Rank rank, Deadline deadline);

struct RosterPlace {
  Rank rank = 0;
  Rank size = 1;
  Seconds patience{};  ///< how long it waits in all, for messages
};

class Roster {
 public:
  /// `store` outlives it. The ranks have until `deadline` to join.
  Roster(Store& store, RosterPlace place, Deadline deadline);

  /// Reserves this rank's number for this process. Of several processes that claim one number, at the
  /// same moment or not, the first gets it and does not notice the others; each other gets a
  /// RankTaken that names both processes.
  void claim();

  /// Records what this rank was started with. A difference from the rank that joined first is an error
  /// on all ranks, which await_all() throws.
  void record(const WorldOptions& options);

  /// This rank is there. Waits until all are. Throws Error(Usage) if ranks were started with different
  /// options, Error(Peer) that names the missing ranks, and what another rank reported by fail().
  void await_all();

  /// This rank has connected to all others. Waits until all have. Throws Error(Peer).
  void await_connected();

  /// Tells the ranks that wait here why this one will not join. Never throws.
  void fail(const std::string& why) noexcept;

 private:
  /// Waits until somebody, perhaps this rank, has decided how the stage ended; throws if not well.
  void await_verdict(const std::string& stage);
  /// Why the wait for a stage ended without verdict; the others are told the same.
  [[nodiscard]] std::string timeout_text(const std::string& stage);
  [[nodiscard]] std::vector<Rank> missing_ranks();

  Store& store_;
  RosterPlace place_;
  Deadline deadline_;
  Rank expected_;  ///< according to the rank that joined first
};

}  // namespace trireme::comm
