// The dimension names of a model's inputs and parameters. Callable from any thread.
#pragma once

#include "trireme/dim_names.h"
#include "trireme/graph.h"

namespace trireme {

/// Names for the inputs and parameters of a model's graph; other values have none.
///
///   batch, sequence           of inputs
///   heads                     of attention; grouped keys have fewer
///   hidden                    between the two products of a feed-forward part, of an expert, of layers 2i and 2i+1
///                             of a perceptron, of the first two convolutions
///   experts                   of a mixture
///   width, head, vocabulary, positions, …   for readability: not sharded by default
[[nodiscard]] DimNames dim_names(const Graph& graph);

}  // namespace trireme
