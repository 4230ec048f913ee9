// Compares synchronization strategies on one training job with the same slow workers: the time of each to the same
// loss. The job is real; slow workers sleep, so that the result does not depend on the number of cores. See
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
  /// The job, on a mesh of the `data` axis alone; its strategy is replaced by each of `strategies`, its ranks are
  /// threads. Each strategy gets its own folder in run.run_folder.
  RunOptions run{};
  std::vector<SyncSpec> strategies{};
  /// How long a worker sleeps before each step, to represent computation. It should be several times the step time on a
  /// machine that all workers share.
  Seconds compute{0.02};
  /// The factor by which worker `worker` sleeps longer before its step `step`; both count from 0.
  std::function<double(int worker, std::int64_t step)> slowdown{};
  /// Called as each strategy starts.
  std::function<void(const SyncSpec&)> begin{};
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const StragglerOptions& options);

/// The loss once all workers completed a step.
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

/// The first point at which the run reaches this loss. Requires that it does.
[[nodiscard]] const LossPoint& first_with_loss(const StragglerRun& run, double loss);

/// Trains with each strategy in turn, in threads of this process. Throws what run_ranks() throws.
[[nodiscard]] StragglerReport compare_under_stragglers(const StragglerOptions& options);

}  // namespace trireme
