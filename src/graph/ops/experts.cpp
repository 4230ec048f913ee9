#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> experts_ops() {
  return {};
}

}  // namespace trireme::ops
