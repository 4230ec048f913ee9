// Gradients: takes a graph and returns it with the backward nodes added. Each op defines its own gradient rule; this
// pass composes them. Callable from any thread.
#pragma once

#include <vector>

#include "trireme/graph.h"

namespace trireme {

struct Gradients {
  Graph graph{};
  /// One per requested value, in the same order; invalid where the loss does not depend on the value.
  std::vector<ValueId> values{};
};

/// Adds the nodes that compute the gradients of `loss`, a scalar, with respect to these values. Existing ids stay
/// valid. The new nodes' results are named "d_w" for a requested w, otherwise "grad/OP/KIND" (kGradientPrefix), where
/// KIND is the new node's op. `seed`, a scalar, is the gradient of the loss itself; 1 if absent. (Loss scaling passes
/// its scale here.) Throws Error(Usage) if the loss is not a floating-point scalar, or if it depends on one of the
/// values only through an op without a gradient.
[[nodiscard]] Gradients add_gradients(Graph graph, ValueId loss,
                                      const std::vector<ValueId>& with_respect_to,
                                      ValueId seed = {});

}  // namespace trireme
