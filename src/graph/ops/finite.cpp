#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> finite_ops() {
  return {};
}

}  // namespace trireme::ops
