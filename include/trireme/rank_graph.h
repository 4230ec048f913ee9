// The graph of one rank, before it becomes a Program, and its position on the mesh. Plain data; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/graph.h"
#include "trireme/placement.h"

namespace trireme {

/// A rank's position: its coordinates on the axes (0 on micro), its place in the pipeline, and, for each axis (except
/// micro) and for the pipeline, the ranks that share its other coordinates.
struct RankPlace {
  std::vector<int> coordinates{};
  std::vector<std::vector<int>> axis_ranks{};
  int pipe = 0;
  std::vector<int> pipe_ranks{0};
};

/// The graph that one rank runs in a step, with communication ops as nodes. Inputs, parameters and states keep their
/// names and have the shapes of their shards; `stored` has the placements.
struct RankGraph {
  Graph graph{};
  std::map<std::string, Placement> stored{};
  /// Placements of outputs. Scalars are replicated; others are where they were computed, and absent if they are
  /// computed per micro-batch.
  std::map<std::string, Placement> outputs{};
};

}  // namespace trireme
