// Chooses the plan of a training run on a measured host: compiles the candidates, predicts their step times, and picks
// the fastest that fits into memory. With more ranks than cores, the time of a step depends on which ranks share a core.
// That cannot be controlled, so plans are compared by their worst case. At every communication op the operating system may
// run a rank that no other waits for, so of the plans within kClosePlans of the fastest, the one with the fewest
// communication ops is picked. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trireme/train.h"
#include "trireme/units.h"

namespace trireme {

struct PlanChoiceOptions {
  std::vector<int> ranks{1};  ///< numbers of ranks to choose from
  int threads = 0;            ///< of each rank; 0: its share of the cores
  Plan fixed{};               ///< settings that are not searched, and defaults for those that are
  bool search_zero = true;    ///< else `fixed.zero`
  bool search_microbatches = true;  ///< else `fixed.microbatches`
  /// Stops trying candidates once the previous ones have this many instructions, on all ranks together, so that a large
  /// model still starts soon. A number and not a time, so that a busy machine chooses the same plan.
  std::size_t budget = 100'000;
};

/// Plans whose ranks share cores are close if their predictions differ by no more: about the error of a prediction.
inline constexpr double kClosePlans = 0.1;

struct PlanCandidate {
  Plan plan{};
  Seconds step{};     ///< predicted
  Seconds slowest{};  ///< with ranks on cores unfavorably, if they share them (SimulationReport)
  std::size_t exchanges = 0;  ///< communication ops of the rank that has most, per step
  Bytes memory{};  ///< of the largest rank: training and validation, without the kernels' workspace
  bool fits = true;
};

struct PlanChoice {
  /// Plans that fit, the picked one first, then by increasing `slowest`; then plans that do not.
  std::vector<PlanCandidate> candidates{};
  std::size_t unsuitable = 0;  ///< incompatible with the model or the batch
  std::size_t skipped = 0;     ///< not tried: the budget was spent
  Seconds time{};              ///< duration of the search

  /// The first candidate, which fits.
  [[nodiscard]] const PlanCandidate& best() const { return candidates.front(); }
};

/// The plans of this number of ranks that are worth trying: every mesh over the axes data, tensor, pipe and context, and
/// expert if the model has experts; with data, each ZeRO stage; with pipe, several numbers of micro-batches. Likely good
/// ones come first.
[[nodiscard]] std::vector<Plan> candidate_plans(int ranks, bool has_experts,
                                                const PlanChoiceOptions& options);

/// Chooses a plan for the run, whose `host` must include compute costs. Throws Error(Usage) if no candidate suits the
/// model, and Error(System) with the smallest requirement if none fits into memory.
[[nodiscard]] PlanChoice choose_plan(const RunOptions& run, const PlanChoiceOptions& options);

/// "data=2, ZeRO 1", "pipe=2, 4 micro-batches"; "one rank" if there are no axes.
[[nodiscard]] std::string summary_of(const Plan& plan);

}  // namespace trireme
