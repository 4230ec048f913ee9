// Evaluates a graph by the references of its ops: slow, in f64, and the measure for everything faster.
// Each result is rounded to its element type. Any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/op.h"

namespace trireme {

/// Values for the inputs, parameters and state, by name.
using Leaves = std::map<std::string, Dense, std::less<>>;

/// All values of the graph, by id. Throws Error(Usage) that names a leaf that is missing or has another
/// shape.
[[nodiscard]] std::vector<Dense> evaluate(const Graph& graph, const Leaves& leaves);

/// The results of one node for these inputs.
[[nodiscard]] std::vector<Dense> evaluate(const Signature& signature,
                                          const std::vector<Dense>& inputs);

/// To the nearest that the type can hold.
void round_to(DType dtype, Dense& values);

}  // namespace trireme
