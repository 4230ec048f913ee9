// The peak of a step's memory. Callable from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "program/lifetimes.h"

namespace trireme {

/// What the storages hold at the peak, over this many instructions.
[[nodiscard]] MemoryUse memory_use(const std::vector<Storage>& storages, std::size_t instructions);

}  // namespace trireme
