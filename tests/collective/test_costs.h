// The links that tests of cost assume.
#pragma once

#include "trireme/collective_cost.h"

namespace trireme {

/// α = 1 µs, β = 1 ns per byte, γ = 0.1 ns per byte.
inline const CostModel kCosts = CostModel::uniform({1e-6}, {1e-9}, {1e-10});

}  // namespace trireme
