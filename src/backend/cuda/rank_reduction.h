// Combining the blocks of several ranks, which a device can all read, in the order of the ranks. Callable from any thread.
#pragma once

#include <cstdint>

#include "backend/cuda/kernel.h"
#include "trireme/comm_call.h"

namespace trireme::cuda {

/// Combines at most kMaxIpcRanks inputs of `count` elements each into one output, which must not be one of them. Combines
/// bf16 and f16 in f32 and rounds once. Throws Error(Usage) if there is no kernel for the type.
[[nodiscard]] Launch rank_reduction(DType dtype, Reduction reduction, std::int64_t count);

}  // namespace trireme::cuda
