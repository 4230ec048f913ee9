// Truth: what the faults of a run did to the ranks, however the library reacted.
//
// A rank that is stopped or disconnected is silent. Up to kHarmless deadlines that must not matter; from kHarmful
// deadlines on, others must have declared the rank dead. In between either may happen, and after a cut in between any of
// the ranks that it separated may be left out. Others wait for a rank that is alive but makes no calls, up to kPatience
// deadlines.
#pragma once

#include <optional>
#include <vector>

#include "comm/fault_fuzz/record.h"

namespace trireme::fault_fuzz {

class Truth {
 public:
  static constexpr double kHarmless = 0.8;
  static constexpr double kHarmful = 1.4;
  /// The minimum time that others wait for a live rank that makes no calls.
  static constexpr double kPatience = 28;

  /// Both must outlive it.
  Truth(const Scenario& scenario, const Record& record);

  [[nodiscard]] RankSet everyone() const { return (RankSet{1} << scenario_.ranks()) - 1; }
  /// Ranks that no fault hit, or only harmless ones.
  [[nodiscard]] RankSet unharmed() const { return unharmed_; }
  /// Whether the unharmed ranks must be able to continue.
  [[nodiscard]] bool unharmed_continue() const;

  /// When `peer` became silent to `rank`, long enough to be declared dead.
  struct Loss {
    double time = 0;
    /// Whether the end of its process is visible at once.
    enum class Notice { Prompt, Deadline } notice = Notice::Deadline;
  };
  [[nodiscard]] std::optional<Loss> loss(int rank, int peer) const;

  /// Whether a rank made no calls for longer than others wait.
  [[nodiscard]] bool was_any_late() const;
  /// When the rank was killed; infinite if it was not.
  [[nodiscard]] double killed_at(int rank) const;
  /// Whether a stop of this rank overlaps the time from `begin` to `end`.
  [[nodiscard]] bool was_stopped(int rank, double begin, double end) const;
  /// The last time up to `end` at which a fault that silences ranks began or ended.
  [[nodiscard]] double last_change(double end) const;
  /// Whether members that share memory with the rank may know by then that it was declared dead.
  [[nodiscard]] bool may_be_given_up(int rank, RankSet by, double time) const;
  [[nodiscard]] bool share_memory(int a, int b) const;

 private:
  [[nodiscard]] double deadlines(double count) const { return count * scenario_.deadline; }
  [[nodiscard]] RankSet ranks_on(int host) const;
  [[nodiscard]] RankSet hit_by(const Strike& strike) const;
  [[nodiscard]] std::vector<const Strike*> harmless_strikes() const;
  [[nodiscard]] bool silences(const Strike& strike, int rank, int peer) const;

  const Scenario& scenario_;
  const Record& record_;
  RankSet unharmed_ = 0;
};

/// Whether `side` continues if only `members` count: more than half of them, or half including the lowest.
[[nodiscard]] bool is_majority(RankSet side, RankSet members);

}  // namespace trireme::fault_fuzz
