// The cores that this process may run on; trireme/cores.h counts them. Any thread.
#pragma once

#include <vector>

#include "trireme/cores.h"

namespace trireme {

/// The numbers of the cores that the calling thread may run on, in ascending order. Empty if the system does not say,
/// as on machines with more cores than CPU_SETSIZE.
[[nodiscard]] std::vector<int> allowed_core_ids();

/// Pins the calling thread to one core. Does nothing where the system does not permit it.
void pin_thread_to(int core);

}  // namespace trireme
