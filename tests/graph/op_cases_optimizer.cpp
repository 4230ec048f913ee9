#include "graph/op_cases.h"

namespace trireme::testing {

std::vector<OpCase> optimizer_cases() {
  return {};
}

}  // namespace trireme::testing
