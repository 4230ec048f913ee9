// A plan as text and as JSON: each rank's communication, memory and idle time. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/text_style.h"
#include "trireme/compiled_plan.h"
#include "trireme/memory_prediction.h"

namespace trireme::report {

/// A rank that is listed, for itself or for all ranks of its kind.
struct ListedRank {
  int rank = 0;
  int stands_for = 1;  ///< ranks, itself included
};
/// All ranks of a small mesh; of a large one, the first of each kind.
[[nodiscard]] std::vector<ListedRank> listed_ranks(const MemoryPrediction& memory);

struct ShownPlan {
  const CompiledPlan& compiled;  ///< of the rank below, and of all listed ones for their sums
  const MemoryPrediction& memory;
  std::string model{};
  int rank = 0;  ///< whose communication the text lists
};

[[nodiscard]] std::string compiled_plan_text(const ShownPlan& shown, const Terminal& terminal);
/// The communication of all listed ranks that are compiled.
[[nodiscard]] std::string compiled_plan_json(const ShownPlan& shown);

/// One line: the memory of a run's fullest rank, by category.
[[nodiscard]] std::string own_memory_text(const MemoryUse& use);

}  // namespace trireme::report
