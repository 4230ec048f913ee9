// The results of a host probe, as text and as JSON. Callable from any thread.
#pragma once

#include <string>

#include "trireme/cluster.h"
#include "trireme/host_probe.h"

namespace trireme::report {

/// `cluster` is the measured host.
[[nodiscard]] std::string probe_text(const Cluster& cluster, const measure::HostProbe& probe);
/// The cluster file, with the confidence intervals added.
[[nodiscard]] std::string probe_json(const Cluster& cluster, const measure::HostProbe& probe);

}  // namespace trireme::report
