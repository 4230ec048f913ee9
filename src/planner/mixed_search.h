// Layouts for a cluster whose nodes differ. Pure; any thread.
#pragma once

#include "planner/ranking.h"

namespace trireme::planner {

/// Shows to `ranking` the pipelines whose stages have devices of one kind each, and blocks in proportion to their speed.
void try_unequal_stages(const TransformerCost& cost, const SearchOptions& options,
                        Ranking& ranking);

}  // namespace trireme::planner
