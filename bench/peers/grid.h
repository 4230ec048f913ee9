// The grid of measurements, and how it is filled: for each number of ranks all libraries are
// started once, and each cell cycles through them several times, so that noise on the machine
// affects all of them alike.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "team.h"

namespace peers {

struct GridOptions {
  std::vector<Operation> operations{};
  std::vector<int> ranks{};
  std::vector<std::int64_t> sizes{};  ///< bytes of the whole vector
  std::vector<Library> libraries{};
  int rounds = 3;
  int repeats = 100;         ///< calls per round, at most
  double milliseconds = 40;  ///< for the calls of a round; at least three are made
};

/// Medians over the rounds; excludes libraries that failed.
struct Cell {
  Operation operation = Operation::Allreduce;
  int ranks = 0;
  std::int64_t bytes = 0;
  std::map<std::string_view, Timing> timings;
};

/// Progress callbacks.
struct GridEvents {
  std::function<void(const Cell&)> measured;
  std::function<void(const std::string&)> failed;
};

/// Ordered by operation, ranks, size. Throws Interrupted.
[[nodiscard]] std::vector<Cell> fill_grid(const GridOptions& options, const GridEvents& events);

}  // namespace peers
