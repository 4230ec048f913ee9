// A picture of a grid: small plots, a row for each operation, a column for each number of ranks.
#pragma once

#include <string>
#include <vector>

#include "grid.h"

namespace peers {

/// SVG. Isolated times over sizes, both logarithmic, a line for each library; the scales of a row
/// are the same.
[[nodiscard]] std::string plot(const std::vector<Cell>& cells, const GridOptions& options);

}  // namespace peers
