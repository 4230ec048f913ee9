// How many cores this process may use. Callable from any thread.
#pragma once

namespace trireme {

/// The cores allowed by a container or taskset. For a process pinned to a single core, all cores of the machine: its
/// launcher will have pinned its peers to other cores.
[[nodiscard]] int usable_cores();

}  // namespace trireme
