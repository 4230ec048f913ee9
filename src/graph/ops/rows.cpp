#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> rows_ops() {
  return {};
}

}  // namespace trireme::ops
