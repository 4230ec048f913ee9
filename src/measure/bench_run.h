// Runs the cases of a benchmark on its ranks and times them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "measure/bench_page.h"
#include "measure/bench_plan.h"
#include "trireme/units.h"

namespace trireme::measure {

/// Median and spread of isolated calls.
struct BenchTimes {
  Seconds median{};
  Seconds least{};
  double spread = 0;  ///< from the 10th to the 90th percentile, as a share of the median
  int calls = 0;
};
[[nodiscard]] BenchTimes summarize(std::vector<Seconds> times);

struct BenchResult {
  BenchTimes times{};
  bool correct = false;
  std::string chosen{};  ///< the method that ran
};

/// Called by rank 0, which may be another process, before each operation and size.
using BenchProgress = std::function<void(std::size_t case_index, const BenchCase& next)>;

/// The results, in the order of the cases. Starts processes (or, in-process, threads); all have ended when it returns.
/// Throws Error if a rank failed.
[[nodiscard]] std::vector<BenchResult> run_bench(const BenchPlan& plan,
                                                 const BenchProgress& progress);

/// Runs the body on `ranks` ranks: processes, or threads if the transport is in-process. If a rank fails, aborts the
/// page and throws Error(System).
void run_bench_ranks(Rank ranks, const WorldOptions& options, BenchPage& page,
                     const std::function<void(World&)>& body);

}  // namespace trireme::measure
