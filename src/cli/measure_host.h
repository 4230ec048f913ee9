// Measures this host for the other commands.
#pragma once

#include "trireme/host_probe.h"

namespace trireme::cli {

/// Messages, waiting, memory and kernels of this host. Shows on a terminal what it measures. Forks: call it before
/// creating a thread.
[[nodiscard]] measure::HostProbe measure_host(const measure::ProbeOptions& options);

}  // namespace trireme::cli
