#include "graph/op_cases.h"

namespace trireme::testing {

std::vector<OpCase> transformer_cases() {
  return {};
}

}  // namespace trireme::testing
