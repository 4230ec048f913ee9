// How many cores there are to run on. Any thread.
#pragma once

namespace trireme {

/// The cores that this process may run on, of those that the machine has: a container or taskset may allow fewer. A
/// process that is bound to a single one counts all: whoever bound it will have bound its peers to others.
[[nodiscard]] int usable_cores();

}  // namespace trireme
