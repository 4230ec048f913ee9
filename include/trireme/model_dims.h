// What the dimensions of a model's inputs and parameters are. Any thread.
#pragma once

#include "trireme/dim_names.h"
#include "trireme/graph.h"

namespace trireme {

/// Those of the inputs and parameters of a graph that was made from a model; others have none.
///
///   batch, sequence           of inputs
///   heads                     of attention; grouped keys have fewer
///   hidden                    between the two products of a feed-forward part, of an expert, of layers 2i and 2i+1
///                             of a perceptron, of the first two convolutions
///   experts                   of a mixture
///   width, head, vocabulary, positions, …   for people: nothing is cut along them by default
[[nodiscard]] DimNames dim_names(const Graph& graph);

}  // namespace trireme
