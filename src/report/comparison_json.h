// A comparison of algorithms, and the numbers of the tour, as JSON. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "trireme/algorithm_comparison.h"
#include "trireme/collective.h"

namespace trireme::report {

/// One object: operation, ranks, rows of {bytes, best, algorithms: {name: seconds}}, crossovers.
[[nodiscard]] std::string comparison_json(const simulate::AlgorithmComparison& comparison);

/// The blocks of the workers of a replayed schedule after a step.
struct ReplayState {
  std::string title{};
  Values values{};
};
/// One object: ring_allreduce_of_three, the states of a replay; comparison, as above.
[[nodiscard]] std::string tour_json(const std::vector<ReplayState>& states,
                                    const simulate::AlgorithmComparison& comparison);

}  // namespace trireme::report
