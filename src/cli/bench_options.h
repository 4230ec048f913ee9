// The lists on the command line of `trireme bench`.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench.h"
#include "trireme/units.h"

namespace trireme::cli {

/// As given on the command line.
struct BenchLists {
  std::string operations;
  std::string sizes;
  std::string algorithms;
};

/// Adds the cases that the lists name to the plan. Throws Error(Usage) that names the option.
void add_cases(measure::BenchPlan& plan, const BenchLists& lists);

/// "8,1K,64K", and ranges "8..64M" in steps of four or "8..64M:2" in steps of two. Ascending, without duplicates.
/// Throws Error(Usage).
[[nodiscard]] std::vector<Bytes> parse_size_list(const std::string& text);

}  // namespace trireme::cli
