// Which processes can share memory. Callable from any thread.
#pragma once

#include <string>

namespace trireme::comm {

/// Equal in processes that can share memory: same boot of the same machine, same network namespace (which stands for a
/// host in tests), same PID namespace.
[[nodiscard]] std::string host_identity();

}  // namespace trireme::comm
