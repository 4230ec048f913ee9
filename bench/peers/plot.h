// A picture of a grid: small plots, a row per operation, a column per number of ranks.
#pragma once

#include <string>
#include <vector>

#include "grid.h"

namespace peers {

/// SVG. Isolated times over sizes, both logarithmic, a line per library; the plots of a row share
/// their scales.
[[nodiscard]] std::string plot(const std::vector<Cell>& cells, const GridOptions& options);

}  // namespace peers
