// Gradients: a graph in, the graph with its backward nodes out. Every op's rule stands in its row; here the
// rules are put together. Any thread.
#pragma once

#include <vector>

#include "trireme/graph.h"

namespace trireme {

struct Gradients {
  Graph graph{};
  /// Of each value asked for, in the same order; invalid where the loss does not depend on it.
  std::vector<ValueId> values{};
};

/// Adds the nodes that compute the gradients of `loss`, a scalar, with respect to these values. The ids of
/// the graph stay good. `seed`: a scalar that the gradient of the loss itself is; none: 1. (Loss scaling
/// multiplies by it.) Throws Error(Usage) if the loss is no scalar of floating point, or if it depends on one
/// of them only through an op that has no gradient.
[[nodiscard]] Gradients add_gradients(Graph graph, ValueId loss,
                                      const std::vector<ValueId>& with_respect_to,
                                      ValueId seed = {});

}  // namespace trireme
