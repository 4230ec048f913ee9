// Options with which a training run fits into memory. One thread at a time uses the device.
#pragma once

#include <vector>

#include "train/step/memory_plan.h"

namespace trireme::train {

/// Options that fit, with their memory and cost.
struct MemoryFix {
  TrainerOptions options{};
  Bytes need{};
  double extra_flops = 0;  ///< per token, as a fraction of the current FLOPs
};

/// Options that keep a rank within the limit: ZeRO; micro-batches; full, selective or minimal recomputation; no master
/// weights; bf16; the largest batch that fits; and combinations if no single one suffices. Fewest extra FLOPs first.
/// Empty if nothing helps. Candidates are tried with predict_memory(); returned fixes were compiled.
[[nodiscard]] std::vector<MemoryFix> find_memory_fixes(const TrainerOptions& options, Bytes limit,
                                                       Device& device, int rank = 0);

/// The minimum: the smallest batch, full recomputation, bf16 without master weights, and ZeRO 3 if there is a `data`
/// axis.
[[nodiscard]] MemoryFix least_memory(const TrainerOptions& options, Device& device, int rank = 0);

}  // namespace trireme::train
