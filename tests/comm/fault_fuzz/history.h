// History: the groups of a run's ranks, and the truth about its faults. The input of the judge's rules.
#pragma once

#include <vector>

#include "comm/fault_fuzz/judge.h"
#include "comm/fault_fuzz/truth.h"

namespace trireme::fault_fuzz {

/// A group, identified by its own members and those of all its ancestors.
using Lineage = std::vector<RankSet>;

class History {
 public:
  /// Both must outlive it.
  History(const Scenario& scenario, const Record& record);

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] const Record& record() const { return record_; }
  [[nodiscard]] const Truth& truth() const { return truth_; }
  [[nodiscard]] Judgement::Timing timing() const;
  [[nodiscard]] const RankRecord& rank(int r) const { return record_.ranks[r]; }
  [[nodiscard]] double deadlines(double count) const { return count * scenario_.deadline; }
  [[nodiscard]] double since_start(double time) const { return time - record_.started_at; }

  /// Of the rank's group of this generation.
  [[nodiscard]] Lineage lineage(int r, int generation) const;
  [[nodiscard]] RankSet members(int r, int generation) const {
    return lineage(r, generation).back();
  }
  /// The rank's first event of the kind, in the group if one is given; null if there is none.
  [[nodiscard]] const Event* find(int r, Event::Kind kind) const;
  [[nodiscard]] const Event* find(int r, Event::Kind kind, const Lineage& group) const;

 private:
  const Scenario& scenario_;
  const Record& record_;
  Truth truth_;
  std::vector<Lineage> lineages_;
};

using Violations = std::vector<Violation>;

/// The rules, by topic. Each adds its violations.
void check_endings(const History& history, Violations& found);
void check_groups(const History& history, Violations& found);
/// Only if timing is judged.
void check_times(const History& history, Violations& found);
void check_survival(const History& history, Violations& found);

}  // namespace trireme::fault_fuzz
