// Evaluates a graph with the reference implementations of its ops: slow, in f64, the standard for all faster
// implementations. Each result is rounded to its element type. Callable from any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/op.h"

namespace trireme {

/// Values for the inputs, parameters and state, by name.
using Leaves = std::map<std::string, Dense, std::less<>>;

/// All values of the graph, by id. Throws Error(Usage) naming a leaf that is missing or has the wrong shape.
[[nodiscard]] std::vector<Dense> evaluate(const Graph& graph, const Leaves& leaves);

/// The results of one node for these inputs.
[[nodiscard]] std::vector<Dense> evaluate(const Signature& signature,
                                          const std::vector<Dense>& inputs);

/// Rounds to the nearest value that the type can represent.
void round_to(DType dtype, Dense& values);

}  // namespace trireme
