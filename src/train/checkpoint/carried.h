// What compressed gradients leave between steps, taken over from a checkpoint. Any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "trireme/graph.h"
#include "trireme/safetensors.h"

namespace trireme::train {

/// Whether a state of this name is compression's, which a checkpoint may have otherwise, or not at all.
[[nodiscard]] bool is_carried(std::string_view name);

/// The elements of such a state, from what was saved (nullptr: nothing was).
///
/// - As it is, if it is of the same type: the run continues bit for bit.
/// - A residual [p,..] of another number of ranks: their sum, which is what the model has not seen yet, is the first
///   rank's, and the others have none.
/// - Else zeros: nothing is left over, or a basis is drawn anew.
[[nodiscard]] std::vector<std::byte> carried_over(const Value& state, const TensorView* saved);

}  // namespace trireme::train
