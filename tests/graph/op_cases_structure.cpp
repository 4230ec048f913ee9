#include "graph/op_cases.h"

namespace trireme::testing {

std::vector<OpCase> structure_cases() {
  return {};
}

}  // namespace trireme::testing
