// Which ranks of a plan run the same. Callable from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "partition/placed.h"

namespace trireme::partition {

/// By axis (as Placed::axes()) and coordinate: a number shared by coordinates with shards of the same sizes for any
/// other coordinates. Along an axis whose operands circulate in a ring, every coordinate has its own: its messages
/// depend on its position.
[[nodiscard]] std::vector<std::vector<std::size_t>> coordinate_kinds(const Placed& placed);

}  // namespace trireme::partition
