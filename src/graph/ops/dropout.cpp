#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> dropout_ops() {
  return {};
}

}  // namespace trireme::ops
