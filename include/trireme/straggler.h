// Synchronization strategies compared on one training job under the same slow workers: how long each takes to the same
// loss. The job is real; the slowness is waiting, so that it does not depend on how many cores there are. See
// docs/synchronization.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/sync.h"
#include "trireme/train.h"
#include "trireme/units.h"

namespace trireme {

struct StragglerOptions {
  /// The job, on a mesh of the `data` axis alone; its strategy is replaced by each of `strategies`, its ranks are threads.
  /// Each strategy gets a folder of its own in run.run_folder.
  RunOptions run{};
  std::vector<SyncSpec> strategies{};
  /// How long a worker waits before each step, to represent computation. It should be several times what the step takes
  /// on a machine that all workers share.
  Seconds compute{0.02};
  /// How many times as long worker `worker` waits before its step `step`, both counted from 0.
  std::function<double(int worker, std::int64_t step)> slowdown{};
  /// Called as each strategy starts.
  std::function<void(const SyncSpec&)> begin{};
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const StragglerOptions& options);

/// The loss when all workers had done a step.
struct LossPoint {
  std::int64_t step = 0;
  Seconds time{};   ///< since the first step started
  double loss = 0;  ///< mean of the last ten steps
};

struct StragglerRun {
  SyncSpec strategy{};
  std::vector<LossPoint> curve{};
  double validation = 0;       ///< after the last step; 0: not measured
  std::int64_t staleness = 0;  ///< the largest
  double spread = 0;           ///< the largest

  [[nodiscard]] Seconds time() const { return curve.back().time; }
};

struct StragglerReport {
  std::string model{};
  int workers = 0;
  std::int64_t steps = 0;
  Seconds compute{};
  double loss = 0;  ///< the lowest that all strategies reach
  std::vector<StragglerRun> runs{};
};

/// When the run first has this loss or less. Requires that it does.
[[nodiscard]] const LossPoint& first_with_loss(const StragglerRun& run, double loss);

/// Trains with each strategy in turn, in threads of this process. Throws what run_ranks() throws.
[[nodiscard]] StragglerReport compare_under_stragglers(const StragglerOptions& options);

}  // namespace trireme
