// Combining the blocks of several ranks, which a device can all read, in the order of the ranks. Callable from any thread.
#pragma once

#include <cstdint>

#include "backend/cuda/kernel.h"
#include "trireme/comm_call.h"

namespace trireme::cuda {

/// For inputs of `count` elements each, at most kMaxIpcRanks, and one output, which is none of them. bf16 and f16 are
/// combined in f32 and rounded once. Throws Error(Usage) if there is no kernel for it.
[[nodiscard]] Launch rank_reduction(DType dtype, Reduction reduction, std::int64_t count);

}  // namespace trireme::cuda
