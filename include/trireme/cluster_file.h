// Cluster files. Callable from any thread.
#pragma once

#include <string>

#include "trireme/cluster.h"

namespace trireme {

/// Throws Error(Input) on a file that is not a cluster, Error(System) on one that cannot be read; both name it.
[[nodiscard]] Cluster read_cluster_file(const std::string& path);

}  // namespace trireme
