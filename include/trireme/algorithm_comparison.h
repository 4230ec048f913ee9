// All algorithms of one operation over a range of sizes: which is fastest where, and at which size that changes. Any
// thread.
#pragma once

#include <vector>

#include "trireme/collective_cost.h"

namespace trireme::simulate {

struct ComparisonRow {
  Bytes bytes;
  std::vector<Choice> ranking;  ///< fastest first
};

/// The first size at which `after` is the fastest instead of `before`.
struct Crossover {
  Bytes bytes;
  Algorithm before;
  Algorithm after;
};

struct AlgorithmComparison {
  Operation operation = Operation::Allreduce;
  Rank ranks = 1;
  Rank root = 0;
  CostModel costs;
  std::vector<ComparisonRow> rows;    ///< by increasing size
  std::vector<Crossover> crossovers;  ///< by increasing size; exact to the byte
};

/// Ranks all algorithms at each of the sizes and finds where the winner changes between them.
[[nodiscard]] AlgorithmComparison compare_algorithms(Selector& selector,
                                                     const Selector::Query& query,
                                                     const std::vector<Bytes>& sizes);

/// The sizes first, first * factor, … up to last, both included.
[[nodiscard]] std::vector<Bytes> size_range(Bytes first, Bytes last, double factor);

/// "8:1GiB". Throws Error(Usage).
struct SizeRange {
  Bytes first;
  Bytes last;
};
[[nodiscard]] SizeRange parse_size_range(const std::string& text);

}  // namespace trireme::simulate
