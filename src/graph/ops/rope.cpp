#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> rope_ops() {
  return {};
}

}  // namespace trireme::ops
