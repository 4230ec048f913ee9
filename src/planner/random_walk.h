// The MCMC search. Pure; any thread.
#pragma once

#include "planner/layout_space.h"
#include "planner/ranking.h"

namespace trireme::planner {

/// Walks through the space and shows every layout on the way to `ranking`.
void walk_randomly(const TransformerCost& cost, const LayoutSpace& space,
                   const McmcOptions& options, Ranking& ranking);

}  // namespace trireme::planner
