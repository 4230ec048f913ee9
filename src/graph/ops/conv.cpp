#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> conv_ops() {
  return {};
}

}  // namespace trireme::ops
