#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> attention_ops() {
  return {};
}

}  // namespace trireme::ops
