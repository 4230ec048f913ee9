// The grid of measurements, and how it is filled: for each number of ranks all libraries are
// started once, and each cell goes round them several times, so that a noisy moment of the machine
// hits all of them alike.
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
  int repeats = 100;         ///< calls of a round, at most
  double milliseconds = 40;  ///< for the calls of a round; at least three are made
};

/// Medians over the rounds; a library that failed is not in it.
struct Cell {
  Operation operation = Operation::Allreduce;
  int ranks = 0;
  std::int64_t bytes = 0;
  std::map<std::string_view, Timing> timings;
};

/// What happens meanwhile.
struct GridEvents {
  std::function<void(const Cell&)> measured;
  std::function<void(const std::string&)> failed;
};

/// Ordered by operation, ranks, size. Throws Interrupted.
[[nodiscard]] std::vector<Cell> fill_grid(const GridOptions& options, const GridEvents& events);

}  // namespace peers
