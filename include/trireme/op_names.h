// Names of ops: an op of a graph has the name of its first result. Ops that a pass derives from another op carry its
// name: "recompute/relu" recomputes the results of the op relu, "grad/relu/multiply" is part of its gradient.
#pragma once

#include <string_view>

namespace trireme {

inline constexpr std::string_view kRecomputePrefix = "recompute/";
inline constexpr std::string_view kGradientPrefix = "grad/";

}  // namespace trireme
