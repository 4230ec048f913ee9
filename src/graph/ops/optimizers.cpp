#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> optimizers_ops() {
  return {};
}

}  // namespace trireme::ops
