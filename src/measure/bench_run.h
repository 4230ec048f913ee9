// Runs code on the ranks of a benchmark, and sums up their times.
#pragma once

#include <functional>
#include <vector>

#include "measure/bench_page.h"
#include "trireme/bench.h"
#include "trireme/comm.h"
#include "trireme/units.h"

namespace trireme::measure {

[[nodiscard]] BenchTimes summarize(std::vector<Seconds> times);

/// Runs the body on `ranks` ranks: processes, or threads if the transport is in-process. If a rank fails, aborts the
/// page and throws Error(System).
void run_bench_ranks(Rank ranks, const WorldOptions& options, BenchPage& page,
                     const std::function<void(World&)>& body);

}  // namespace trireme::measure
