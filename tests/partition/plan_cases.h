// The plans that are compared with one device: in numbers and in memory.
#pragma once

#include <vector>

#include "plan_case.h"

namespace trireme {

/// The share by which predicted memory may differ from the memory that a rank uses.
inline constexpr double kMemoryTolerance = 0.02;

/// For 4 blocks of 4 heads over 4 sequences.
[[nodiscard]] const std::vector<Case>& plans_of_language_models();
/// For 2 such blocks, one or both with 6 experts.
[[nodiscard]] const std::vector<Case>& plans_of_experts();
/// For models without sequences: sequential layers over 6 examples or more.
[[nodiscard]] const std::vector<Case>& plans_of_examples();

/// Every n-th case, starting with `first`: tests that use the same cases start with different ones.
[[nodiscard]] std::vector<Case> every_nth(const std::vector<Case>& all, std::size_t n,
                                          std::size_t first);

}  // namespace trireme
