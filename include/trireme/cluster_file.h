// Cluster files. Callable from any thread.
#pragma once

#include <string>

#include "trireme/cluster.h"

namespace trireme {

/// Throws Error(Input), which names the file, if it is missing, unreadable or not a cluster.
[[nodiscard]] Cluster read_cluster_file(const std::string& path);

}  // namespace trireme
