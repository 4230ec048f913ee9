// Whether a training run fits into memory, told before it takes any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/host_memory.h"
#include "train/step/memory_plan.h"
#include "trireme/comm.h"

namespace trireme::cli {

/// What a run may take: `limit` if it is given, else what the host has.
[[nodiscard]] AvailableMemory memory_for_training(std::optional<Bytes> limit);

/// Throws Error(System) if what the rank needs is more: how much and for what, the largest tensors, and options that fit,
/// each tried, the cheapest first.
void require_memory(const train::TrainerOptions& options, const train::MemoryNeed& need,
                    const AvailableMemory& available, Device& device, int rank = 0);

/// The same on all ranks of a world, each of which calls it: a limit is for each, what a machine has is for all its
/// ranks together. If there is too little, one rank throws, and it is false on the others.
[[nodiscard]] bool has_memory(const train::TrainerOptions& options, const train::MemoryNeed& need,
                              std::optional<Bytes> limit, Device& device, World& world);

/// What a part of memory is for: "activation", "gaps".
struct MemoryPart {
  std::string what{};
  Bytes bytes{};
};

/// All categories at the fullest moment of a step, and the gaps that are left in the arena then.
[[nodiscard]] std::vector<MemoryPart> memory_parts(const MemoryUse& use, Bytes arena,
                                                   Bytes workspace);
/// "3.1 MiB activation, 1.2 MiB parameter, …", the most first; of what takes nothing, nothing.
[[nodiscard]] std::string parts_text(std::vector<MemoryPart> parts);

/// How to ask for what `to` has and `from` has not: "--batch 8 --recompute full".
[[nodiscard]] std::string options_text(const train::TrainerOptions& from,
                                       const train::TrainerOptions& to);

}  // namespace trireme::cli
