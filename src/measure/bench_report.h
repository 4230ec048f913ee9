// The results of a benchmark, with predictions; and the tuning that follows from them. Callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/bench_plan.h"
#include "measure/bench_run.h"
#include "trireme/units.h"

namespace trireme::measure {

/// One case, measured.
struct BenchRow {
  BenchCase what{};
  BenchResult result{};
  std::optional<Seconds> predicted{};  ///< nothing: the host has not been probed
  std::optional<Seconds> floor{};      ///< least time for the bytes that must move
  bool best = false;                   ///< the fastest correct one of its operation and size
};

struct BenchReport {
  BenchPlan plan{};
  std::vector<BenchRow> rows{};
};

/// The results of all cases of the plan, with predictions where the plan has costs, and the best row
/// of each operation and size marked.
[[nodiscard]] BenchReport make_bench_report(BenchPlan plan, std::vector<BenchResult> results);

/// Bytes of the vector over time, in GB/s.
[[nodiscard]] double algorithm_bandwidth(const BenchRow& row);
/// The same times a factor that makes it comparable between operations and numbers of ranks: the part of the vector
/// that a rank must send, 2(p-1)/p for an all-reduce.
[[nodiscard]] double bus_bandwidth(const BenchRow& row, Rank ranks);
/// The minimum time to move the bytes, as a share of the measured time.
[[nodiscard]] std::optional<double> floor_share(const BenchRow& row);

struct TuningOrigin {
  std::string machine;
  std::string date;
};
/// The measured best method of each operation and size, with the times of all candidates. Methods that are never chosen
/// automatically are not candidates.
[[nodiscard]] Tuning make_tuning(const BenchReport& report, const TuningOrigin& origin);

}  // namespace trireme::measure
