// What a training run needs of memory, before it takes any; and what to change where that is too much.
//
// One thread at a time uses the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/step/step_graph.h"
#include "trireme/device.h"
#include "trireme/program.h"

namespace trireme::train {

/// A tensor that is there when memory is fullest.
struct LargeTensor {
  std::string name{};
  TensorType type{};
  std::string origin{};  ///< "parameter", "forward, block 3"
};

struct MemoryNeed {
  Bytes arena{};         ///< of a training step
  Bytes workspace{};     ///< of its kernels
  Bytes evaluation{};    ///< of the forward pass alone, with its own copy of the parameters
  MemoryUse use{};       ///< of the arena at its fullest
  std::string moment{};  ///< of that: "einsum in backward, block 3"
  std::vector<LargeTensor> largest{};  ///< at that moment, the largest first; a few
  double flops = 0;                    ///< of a step, as executed

  [[nodiscard]] Bytes total() const;
};

/// Of one rank, whose programs were compiled.
[[nodiscard]] MemoryNeed plan_memory(const CompiledTraining& compiled, Device& device,
                                     int rank = 0);
/// Compiles them. Throws as compile_training().
[[nodiscard]] MemoryNeed plan_memory(const TrainerOptions& options, Device& device, int rank = 0);

/// Options that fit, with what they need and cost.
struct MemoryFix {
  TrainerOptions options{};
  Bytes need{};
  double extra_flops = 0;  ///< for each token, as a share of what it takes now
};

/// Ways in which a rank keeps within the limit, each tried: ZeRO, recomputation in whole, selective or as little as
/// will do, bf16, the largest batch that fits; together where none alone is enough. The least extra FLOPs first. Empty
/// if nothing helps.
[[nodiscard]] std::vector<MemoryFix> find_memory_fixes(const TrainerOptions& options, Bytes limit,
                                                       Device& device, int rank = 0);

/// The least that there is: the smallest batch, all recomputed, in bf16, ZeRO 3 where there is `data`.
[[nodiscard]] MemoryFix least_memory(const TrainerOptions& options, Device& device, int rank = 0);

}  // namespace trireme::train
