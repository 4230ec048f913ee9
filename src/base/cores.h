// The cores that this process may run on. Any thread.
#pragma once

#include <vector>

namespace trireme {

/// The numbers of the cores that the calling thread may run on, in ascending order. Empty if the system does not say,
/// as on machines with more cores than CPU_SETSIZE.
[[nodiscard]] std::vector<int> allowed_core_ids();

/// How many cores this process may use: those it is allowed, as by a container or taskset. A process that is pinned to
/// a single core counts all cores of the machine: whoever pinned it will have pinned its peers to other cores.
[[nodiscard]] int usable_cores();

/// Pins the calling thread to one core. Does nothing where the system does not permit it.
void pin_thread_to(int core);

}  // namespace trireme
