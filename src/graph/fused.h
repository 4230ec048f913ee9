// The program of a fused node: several element-wise ops in one pass over the operands. For the pass that creates such
// nodes and for backends.
//
//   add(%0,%1); scale(t0) factor=2; gelu(t1)
//
// %k is the node's input k, tk the result of step k; the last step's is the node's. Steps have the type of
// the node's first input; later inputs may lack its leading dimensions where the op allows that. Results in
// between are not rounded to the element type.
#pragma once

#include <string>
#include <vector>

#include "trireme/op.h"

namespace trireme {

struct FusedOperand {
  enum class Kind : std::uint8_t { Input, Step } kind = Kind::Input;
  std::size_t number = 0;
};

struct FusedStep {
  const Op* op = nullptr;
  std::vector<FusedOperand> operands{};
  Attributes attributes{};  ///< all of them numbers
};

using FusedProgram = std::vector<FusedStep>;

/// Whether nodes of this op can be steps: element-wise, one result like the first input, numbers as attributes.
/// (Dropout is not: a shard needs its offset in the whole, which a program hides.)
[[nodiscard]] bool can_be_fused(const Op& op);

[[nodiscard]] std::string to_text(const FusedProgram& program);
/// The program of a fused node. Throws Error(Usage) through the signature if it is invalid.
[[nodiscard]] FusedProgram parse_program(const Signature& s);

}  // namespace trireme
