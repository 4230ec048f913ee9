#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> top_k_ops() {
  return {};
}

}  // namespace trireme::ops
