// The random orders of samplers. Callable from any thread.
#pragma once

#include "train/data/permutation.h"
#include "trireme/sampler.h"

namespace trireme::train {

/// Throws Error(Usage) unless samples >= 1 and epoch >= 0.
void check_epoch(std::int64_t samples, std::int64_t epoch);

/// Throws as check_epoch does.
[[nodiscard]] Permutation order_of(const PoolOptions& options);

}  // namespace trireme::train
