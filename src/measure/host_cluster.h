// This host as a Cluster. Callable from any thread.
#pragma once

#include <string>

#include "measure/probe.h"
#include "trireme/cluster.h"

namespace trireme::measure {

/// "localhost" if the system does not know it.
[[nodiscard]] std::string host_name();

/// The measured host as a cluster of one node: a device is one core.
[[nodiscard]] Cluster make_host_cluster(const HostProbe& probe);

}  // namespace trireme::measure
