// The exhaustive search. Pure; any thread.
#pragma once

#include "planner/layout_space.h"
#include "planner/ranking.h"

namespace trireme::planner {

/// Shows every layout of the space to `ranking`.
void try_all(const TransformerCost& cost, const LayoutSpace& space, Ranking& ranking);

}  // namespace trireme::planner
