// Roster: the ranks of a job that have joined, as the job's store records them. It detects duplicate rank numbers,
// ranks with different options and ranks that do not join, and reports the problem to all ranks. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "comm/rendezvous/store.h"
#include "trireme/comm.h"
#include "trireme/error.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// This machine's name, for display.
[[nodiscard]] std::string machine_name();

/// Another process has the same rank. Affects only this process.
class RankTaken : public Error {
 public:
  explicit RankTaken(const std::string& what) : Error(ErrorKind::Usage, what) {}
};

/// For a process that already knows that another has its rank: waits until that one has claimed it. Throws RankTaken,
/// or Error(Peer) at the deadline.
[[noreturn]] void report_rank_taken(Store& store, Rank rank, Deadline deadline);

struct RosterPlace {
  Rank rank = 0;
  Rank size = 1;
  Seconds patience{};  ///< the total timeout, for messages
};

class Roster {
 public:
  /// `store` must outlive it. The ranks have until `deadline` to join.
  Roster(Store& store, RosterPlace place, Deadline deadline);

  /// Reserves this rank's number for this process. If several processes claim one number, concurrently or not, the
  /// first gets it and does not notice the others; each of the others gets a RankTaken that names both processes.
  void claim();

  /// Records this rank's options. A difference from the rank that joined first is an error on all ranks, which
  /// await_all() throws.
  void record(const WorldOptions& options);

  /// Announces this rank and waits for all others. Throws Error(Usage) if ranks were started with different options,
  /// Error(Peer) naming the missing ranks, and any error that another rank reported by fail().
  void await_all();

  /// Announces that this rank has connected to all others and waits until all have. Throws Error(Peer).
  void await_connected();

  /// Tells the waiting ranks why this one will not join. Never throws.
  void fail(const std::string& why) noexcept;

 private:
  /// Waits until a rank, perhaps this one, has decided the outcome of the stage; throws if it failed.
  void await_verdict(const std::string& stage);
  /// Why the wait for a stage ended without a verdict; the others get the same text.
  [[nodiscard]] std::string timeout_text(const std::string& stage);
  [[nodiscard]] std::vector<Rank> missing_ranks();

  Store& store_;
  RosterPlace place_;
  Deadline deadline_;
  Rank expected_;  ///< the smaller of its size and that of the rank that joined first
};

}  // namespace trireme::comm
