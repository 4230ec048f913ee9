// Fusions: which groups of nodes a device runs faster as one op. A device reports them, and the graph passes of
// trireme/optimize.h apply them to the program of a rank. Plain data; any thread.
#pragma once

namespace trireme {

struct Fusions {
  /// The loss and its gradient in one pass over the logits; classes padded to aligned rows.
  bool classifier = false;
  /// The products that make q, k and v, and those of their gradients, in one each; attention to packed heads.
  bool projections = false;
  /// Matrix products with a bias, an activation or its derivative, or a sum.
  bool products = false;
  /// The backward of a norm with the sum that its result enters.
  bool norms = false;
  /// An optimizer's update of a master copy with the rounding of the parameter.
  bool updates = false;
};

}  // namespace trireme
