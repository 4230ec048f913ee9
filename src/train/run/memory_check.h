// Checks that a training run fits into memory before it allocates any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run/host_memory.h"
#include "train/run/ranks.h"
#include "train/step/memory_plan.h"
#include "trireme/comm.h"
#include "trireme/train.h"

namespace trireme::train {

/// Memory available to a run: `limit` if given, else the host's available memory.
[[nodiscard]] AvailableMemory memory_for_training(std::optional<Bytes> limit);
/// The same on a device, which may have its own memory.
[[nodiscard]] AvailableMemory memory_for_training(std::optional<Bytes> limit, const Device& device);

/// Throws Error(System) if the rank needs more, with the amount by category, the largest tensors, and options that fit,
/// each verified, cheapest first.
void require_memory(const TrainerOptions& options, const MemoryNeed& need,
                    const AvailableMemory& available, Device& device, int rank = 0);

/// The same for all ranks of a run with a world; collective. The limit applies to each rank, a machine's available memory to all
/// its ranks together. If memory does not suffice, one rank throws and the others return false.
[[nodiscard]] bool has_memory(const TrainerOptions& options, const MemoryNeed& need,
                              std::optional<Bytes> limit, Device& device, Ranks& ranks);

/// The largest need of any rank; the first rank in a tie.
struct LargestNeed {
  int rank = 0;
  MemoryNeed need{};  ///< only its sizes
};
/// The same on all ranks; collective.
[[nodiscard]] LargestNeed largest_need(const MemoryNeed& mine, Ranks& ranks);

/// The nonempty parts of a run's memory: all categories at the peak of a step, the gaps in the arena at that point, the
/// update if it is split from the step, and evaluation.
[[nodiscard]] std::vector<MemoryPart> memory_parts(const MemoryNeed& need);
/// The options that turn `from` into `to`: "--batch 8 --recompute full".
[[nodiscard]] std::string options_text(const TrainerOptions& from, const TrainerOptions& to);

}  // namespace trireme::train
