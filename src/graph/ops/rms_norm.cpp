#include "graph/ops/families.h"

namespace trireme::ops {

std::vector<Op> rms_norm_ops() {
  return {};
}

}  // namespace trireme::ops
