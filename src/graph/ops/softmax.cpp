#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> softmax_ops() {
  return {};
}

}  // namespace trireme::ops
