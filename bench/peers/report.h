// The results of a grid: tables as text, and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grid.h"

namespace peers {

/// Which of a Timing's two figures.
using Figure = double Timing::*;

/// How one of our variants compares with the peers in a cell.
struct Comparison {
  std::string_view best_peer;
  double ratio = 0;  ///< the best peer's time over ours: above 1 we are faster
};

/// Against all peers; our TCP variant against the peers on TCP. Nothing if either side was not
/// measured.
[[nodiscard]] std::optional<Comparison> compare(const Cell& cell, const Library& ours,
                                                Figure figure);

/// "64 KiB"
[[nodiscard]] std::string size_text(std::int64_t bytes);
/// Microseconds with about three digits.
[[nodiscard]] std::string time_text(double microseconds);

/// Processor, cores, memory, kernel.
[[nodiscard]] std::string machine();

[[nodiscard]] std::string table(const std::vector<Cell>& cells, const GridOptions& options);
/// One object per line: the machine, each cell, the means.
[[nodiscard]] std::string json_lines(const std::vector<Cell>& cells, const GridOptions& options);

}  // namespace peers
