#include "graph/op_cases.h"

namespace trireme::testing {
namespace {

OpCase fused(std::vector<Operand> inputs, std::string program) {
  return {"fused", std::move(inputs), {{"program", std::move(program)}}};
}

}  // namespace

std::vector<OpCase> fused_cases() {
  return {fused({{{2, 3}}}, "exp(%0)"),
          fused({{{2, 3, 5}}, {{5}}}, "add(%0,%1); scale(t0) factor=0.5; gelu(t1)"),
          fused({{{4}}, {{}}, {{4}}}, "multiply(%0,%1); relu_backward(%2,t0); add(t1,t0)"),
          fused({{{0, 4}}, {{4}}}, "subtract(%0,%1); square(t0)")};
}

}  // namespace trireme::testing
