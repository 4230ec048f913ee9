#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> pool_ops() {
  return {};
}

}  // namespace trireme::ops
