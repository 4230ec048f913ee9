// How much memory a training run needs, before it allocates any. One thread at a time uses the device.
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
  Bytes arena{};            ///< of a training step
  Bytes workspace{};        ///< of its kernels
  Bytes update{};           ///< of the optimizer's update, if it is split from the step
  Bytes evaluation{};       ///< of the forward pass alone, with its own copy of the parameters
  Bytes synchronization{};  ///< copies of the model, see TrainerOptions
  MemoryUse use{};          ///< of the arena at its fullest
  std::string moment{};     ///< where the peak occurs: "einsum in backward, block 3"
  std::vector<LargeTensor> largest{};  ///< the largest few tensors at the peak, largest first
  double flops = 0;                    ///< per step, as executed

  [[nodiscard]] Bytes total() const;
};

/// Memory needed by one rank, given its compiled programs.
[[nodiscard]] MemoryNeed plan_memory(const CompiledTraining& compiled, Device& device,
                                     int rank = 0);
/// The same, compiling the programs first. Throws as compile_training().
[[nodiscard]] MemoryNeed plan_memory(const TrainerOptions& options, Device& device, int rank = 0);

/// The contents of a rank's arenas at their peaks, predicted without compiling; excludes gaps between buffers and the
/// kernels' workspace.
struct PredictedMemory {
  Bytes step{};
  Bytes evaluation{};
  double flops = 0;  ///< per step, as executed

  [[nodiscard]] Bytes total() const { return {step.count + evaluation.count}; }
};
/// Throws as compile_training().
[[nodiscard]] PredictedMemory predict_memory(const TrainerOptions& options, int rank = 0);

}  // namespace trireme::train
