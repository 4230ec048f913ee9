#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> embedding_ops() {
  return {};
}

}  // namespace trireme::ops
