#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> cast_ops() {
  return {};
}

}  // namespace trireme::ops
