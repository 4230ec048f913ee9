// How many cores this process may use. Callable from any thread.
#pragma once

namespace trireme {

/// Those it is allowed, as by a container or taskset. A process that is pinned to a single core counts all cores of the
/// machine: whoever pinned it will have pinned its peers to other cores.
[[nodiscard]] int usable_cores();

}  // namespace trireme
