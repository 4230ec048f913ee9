// Fusions: the groups of nodes that a device runs faster as one op. A device reports them, and the graph passes of
// trireme/optimize.h apply them to the program of a rank. Plain data; any thread.
#pragma once

namespace trireme {

struct Fusions {
  /// The loss and its gradient in one pass over the logits; classes padded to aligned rows.
  bool classifier = false;
  /// The products that compute q, k and v as one, likewise their gradients; attention on packed heads.
  bool projections = false;
  /// Matrix products fused with a bias, an activation or its derivative, or a sum.
  bool products = false;
  /// The backward of a norm fused with the sum that consumes its result.
  bool norms = false;
  /// An optimizer's update of a master copy fused with the rounding of the parameter.
  bool updates = false;
};

}  // namespace trireme
