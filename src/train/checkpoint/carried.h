// Restores the state of gradient compression from a checkpoint. Callable from any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "trireme/graph.h"
#include "trireme/safetensors.h"

namespace trireme::train {

/// Whether this state belongs to gradient compression. A checkpoint may lack it, or have it with another shape.
[[nodiscard]] bool is_carried(std::string_view name);

/// The elements of such a state, given what was saved (nullptr: nothing).
///
/// - Same type: unchanged, so the run continues bit for bit.
/// - A residual [p,..] for a different number of ranks: the first rank gets the sum, which is what the model has not
///   seen yet; the other ranks get zeros.
/// - Otherwise zeros: no residual is left over, or a new basis is drawn.
[[nodiscard]] std::vector<std::byte> carried_over(const Value& state, const TensorView* saved);

}  // namespace trireme::train
