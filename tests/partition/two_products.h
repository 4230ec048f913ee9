// Two matrix products in a row, without training.
#pragma once

#include <string>

#include "trireme/graph.h"

namespace trireme {

/// Y = (X W1) W2 with an element-wise function in between, or none. X is [4,6] and W1 [6,8], of the dtype of W2.
inline Graph two_products(const char* between, const TensorType& second) {
  GraphBuilder b("two_products");
  const ValueId x = b.input("x", {second.dtype, {4, 6}});
  const ValueId w1 = b.parameter("w1", {second.dtype, {6, 8}});
  const ValueId w2 = b.parameter("w2", second);
  const Attributes equation{{"equation", std::string("bi,ij->bj")}};
  ValueId h = b.add1("einsum", {x, w1}, equation);
  h = *between != '\0' ? b.add1(between, {h}) : h;
  b.output("y", b.add1("einsum", {h, w2}, equation));
  return b.finish();
}

}  // namespace trireme
