// How many cores are available. Callable from any thread.
#pragma once

namespace trireme {

/// The cores that this process may run on: a container or taskset may allow fewer than the machine has. A process that
/// is bound to a single core counts all: its peers are presumably bound to others.
[[nodiscard]] int usable_cores();

}  // namespace trireme
