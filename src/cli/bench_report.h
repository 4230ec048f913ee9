// What `trireme bench` prints and writes: a table for people, JSON for machines, the tuning file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench_measure.h"
#include "cli/bench_plan.h"
#include "trireme/units.h"

namespace trireme::cli {

/// One case, measured.
struct BenchRow {
  BenchCase what{};
  BenchResult result{};
  std::optional<Seconds> predicted{};  ///< nothing: the machine has not been probed
  std::optional<Seconds> floor{};      ///< what moving the bytes that must move takes at least
  bool best = false;                   ///< the fastest that is right, of its operation and size
};

struct BenchReport {
  BenchPlan plan{};
  std::vector<BenchRow> rows{};
};

/// Marks the best row of each operation and size.
void mark_best(BenchReport& report);

/// Bytes of the vector over time, in GB/s.
[[nodiscard]] double algorithm_bandwidth(const BenchRow& row);
/// The same times what makes it comparable between operations and numbers of ranks: the part of the
/// vector that a rank must send, 2(p-1)/p for an all-reduce.
[[nodiscard]] double bus_bandwidth(const BenchRow& row, Rank ranks);

[[nodiscard]] std::string bench_table(const BenchReport& report, bool colour);
/// One object on one line for each row.
[[nodiscard]] std::string bench_json(const BenchReport& report);
struct TuningOrigin {
  std::string machine;
  std::string date;
};
/// The measured best of each operation and size, with the times of all candidates. Methods that are
/// never chosen by themselves are none.
[[nodiscard]] Tuning make_tuning(const BenchReport& report, const TuningOrigin& origin);

}  // namespace trireme::cli
