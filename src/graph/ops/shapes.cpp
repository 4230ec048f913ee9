#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> shapes_ops() {
  return {};
}

}  // namespace trireme::ops
