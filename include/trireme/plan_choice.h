// Chooses how a training run is distributed over the ranks of a measured host: compiles the candidates, predicts their
// steps, and takes the fastest that fits into memory. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trireme/train.h"
#include "trireme/units.h"

namespace trireme {

struct PlanChoiceOptions {
  std::vector<int> ranks{1};        ///< numbers of ranks to choose from
  int threads = 0;                  ///< of each rank; 0: its part of the cores
  Plan fixed{};                     ///< what is not searched, and the default of what is
  bool search_zero = true;          ///< else `fixed.zero`
  bool search_microbatches = true;  ///< else `fixed.microbatches`
  /// No further candidate is tried once those so far have this many instructions, on all ranks together, so that a large
  /// model still starts soon. A number and not a time, so that a busy machine chooses the same plan.
  std::size_t budget = 100'000;
};

struct PlanCandidate {
  Plan plan{};
  Seconds step{};  ///< predicted
  Bytes
      memory{};  ///< of the rank that needs most: training and validation, without the kernels' workspace
  bool fits = true;
};

struct PlanChoice {
  std::vector<PlanCandidate>
      candidates{};            ///< those that fit, fastest first, then those that do not
  std::size_t unsuitable = 0;  ///< that the model or the batch does not allow
  std::size_t skipped = 0;     ///< not tried: the budget was spent
  Seconds time{};              ///< that the choice took

  /// The first, which fits.
  [[nodiscard]] const PlanCandidate& best() const { return candidates.front(); }
};

/// The plans of this number of ranks that are worth trying: every mesh over the axes data, tensor, pipe and context, and
/// expert if the model has experts; with data, each ZeRO stage; with pipe, several numbers of micro-batches. Likely good
/// ones come first.
[[nodiscard]] std::vector<Plan> candidate_plans(int ranks, bool has_experts,
                                                const PlanChoiceOptions& options);

/// Chooses for the run, whose `host` must be known with its costs of computing. Throws Error(Usage) if no candidate
/// suits the model, and Error(System) if none fits into memory: what the one with the least needs.
[[nodiscard]] PlanChoice choose_plan(const RunOptions& run, const PlanChoiceOptions& options);

/// "data=2, ZeRO 1", "pipe=2, 4 micro-batches"; "one rank" if there are no axes.
[[nodiscard]] std::string summary_of(const Plan& plan);

}  // namespace trireme
