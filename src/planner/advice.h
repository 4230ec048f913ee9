// What to say if nothing fits. Pure; any thread.
#pragma once

#include <string>

#include "trireme/planner.h"

namespace trireme::planner {

/// "the largest part is optimizer, 283 GiB, and its largest tensor …".
[[nodiscard]] std::string describe_largest_tensor(const TransformerCost& cost,
                                                  const RankedLayout& layout);

/// The cheapest change that makes the model fit, found by searching again: first what costs nothing (axes and options that
/// the space leaves out), then shorter sequences, then more nodes.
[[nodiscard]] std::string advise(const TransformerCost& cost, const SearchOptions& options,
                                 const RankedLayout& smallest);

}  // namespace trireme::planner
