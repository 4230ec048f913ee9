// Predicts the memory of every rank under a plan, without its programs: the graph is placed once, then the lifetimes of
// values are counted for one rank of each kind. Ranks are of one kind if they run the same ops on shards of the same
// sizes, so thousands of ranks usually reduce to one kind per pipeline stage. Callable from any thread.
//
//   const MemoryPrediction memory = predict_memory({graph, dim_names(graph)}, plan);
//   memory.largest().use.peak;  // what the fullest rank needs
//
// The peak equals memory_use() of the compiled program (property-tested). A program's arena is larger by the gaps
// between its buffers, which depend on their offsets.
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/partition.h"
#include "trireme/plan.h"
#include "trireme/program.h"

namespace trireme {

struct MemoryPrediction {
  /// Ranks with equal memory use.
  struct Kind {
    int first_rank = 0;
    int ranks = 0;
    MemoryUse use{};
  };
  std::vector<Kind> kinds{};           ///< by first rank
  std::vector<std::size_t> kind_of{};  ///< by rank, in `kinds`

  [[nodiscard]] const MemoryUse& at(int rank) const { return kinds.at(kind_of.at(rank)).use; }
  /// The kind with the highest peak; the first in a tie.
  [[nodiscard]] const Kind& largest() const;
};

/// Throws Error(Usage) if the plan does not fit the graph, as CompiledPlan does.
[[nodiscard]] MemoryPrediction predict_memory(const NamedGraph& graph, const Plan& plan);
/// The same for one rank only.
[[nodiscard]] MemoryUse predict_memory(const NamedGraph& graph, const Plan& plan, int rank);

}  // namespace trireme
