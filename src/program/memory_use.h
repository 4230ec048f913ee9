// A step's memory by instruction, and its peak. Callable from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "program/lifetimes.h"

namespace trireme {

using CategoryBytes = std::array<Bytes, kCategories>;

/// The contents of the buffers during each instruction, by category; one moment if there is no instruction.
[[nodiscard]] std::vector<CategoryBytes> memory_by_instruction(const Program& program);

/// The contents of the storages at the peak, over this many instructions.
[[nodiscard]] MemoryUse memory_use(const std::vector<Storage>& storages, std::size_t instructions);

}  // namespace trireme
