// Which ranks of a plan run the same. Callable from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "partition/placed.h"

namespace trireme::partition {

/// By axis (as Placed::axes()) and coordinate: a number that is the same for coordinates that have shards of the same
/// sizes of everything, whatever the other coordinates are. Along an axis whose operands circulate in a ring, every
/// coordinate has its own: what it receives depends on its position.
[[nodiscard]] std::vector<std::vector<std::size_t>> coordinate_kinds(const Placed& placed);

}  // namespace trireme::partition
