// Cases larger than the blocks, tiles and strips of kernels; op_cases.h has small ones.
#pragma once

#include "graph/op_cases.h"

namespace trireme::testing {

[[nodiscard]] std::vector<OpCase> large_cases();

}  // namespace trireme::testing
