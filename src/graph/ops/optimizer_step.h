// Shared by the ops of optimizers, whose operands are p, g, states, lr, perhaps step, and g_scale.
#pragma once

#include <span>
#include <vector>

#include "trireme/graph.h"
#include "trireme/op.h"

namespace trireme::ops {

/// Whether the node is an optimizer's step: its first input is a parameter p, its second the gradient g.
[[nodiscard]] bool is_optimizer_step(const Node& node);

/// The new p and the new states, as many as the op has results after the first. Checks all operands.
[[nodiscard]] std::vector<TensorType> infer_optimizer_step(const Signature& s);

/// For references: if g_scale skips the step, sets every result to the old value and returns true.
[[nodiscard]] bool keeps_old(std::span<const Dense> in, std::span<Dense> out);

}  // namespace trireme::ops
