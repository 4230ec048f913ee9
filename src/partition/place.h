// Places each node of a graph. Callable from any thread.
#pragma once

#include "partition/placed.h"

namespace trireme::partition {

[[nodiscard]] Placed place(const Graph& graph, const PlacementSpec& placements);

}  // namespace trireme::partition
