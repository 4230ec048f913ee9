// Measures this host for the other commands.
#pragma once

#include "trireme/host_probe.h"

namespace trireme::cli {

/// Measures messages, waiting, memory and kernels of this host. Shows its progress on a terminal. Forks: call it before
/// creating a thread.
[[nodiscard]] measure::HostProbe measure_host(const measure::ProbeOptions& options);

}  // namespace trireme::cli
