// Predicts how much memory a training run needs before it allocates any, and finds options that fit if that is too
// much. One thread at a time uses the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/step/step_graph.h"
#include "trireme/device.h"
#include "trireme/program.h"

namespace trireme::train {

/// A tensor that is live at peak memory.
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
  std::string moment{};  ///< where the peak occurs: "einsum in backward, block 3"
  std::vector<LargeTensor> largest{};  ///< the largest few tensors at the peak, largest first
  double flops = 0;                    ///< per step, as executed

  [[nodiscard]] Bytes total() const;
};

/// Memory needed by one rank, given its compiled programs.
[[nodiscard]] MemoryNeed plan_memory(const CompiledTraining& compiled, Device& device,
                                     int rank = 0);
/// The same, compiling the programs first. Throws as compile_training().
[[nodiscard]] MemoryNeed plan_memory(const TrainerOptions& options, Device& device, int rank = 0);

/// Options that fit, with what they need and cost.
struct MemoryFix {
  TrainerOptions options{};
  Bytes need{};
  double extra_flops = 0;  ///< per token, as a fraction of the current FLOPs
};

/// Options that keep a rank within the limit, each verified: ZeRO; full, selective or minimal recomputation; bf16; the
/// largest batch that fits; and combinations where none suffices alone. Fewest extra FLOPs first. Empty if nothing
/// helps.
[[nodiscard]] std::vector<MemoryFix> find_memory_fixes(const TrainerOptions& options, Bytes limit,
                                                       Device& device, int rank = 0);

/// The minimum: the smallest batch, full recomputation, bf16, and ZeRO 3 if there is a `data` axis.
[[nodiscard]] MemoryFix least_memory(const TrainerOptions& options, Device& device, int rank = 0);

}  // namespace trireme::train
