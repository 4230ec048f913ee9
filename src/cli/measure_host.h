// Measures this host for the other commands.
#pragma once

#include <string>

#include "trireme/host_probe.h"

namespace trireme::cli {

/// Messages, waiting, memory and kernels of this host. Shows on a terminal what it measures. Forks: call it before
/// creating a thread.
[[nodiscard]] measure::HostProbe measure_host(const measure::ProbeOptions& options);

/// host_file_path(), whose folder it creates.
[[nodiscard]] std::string writable_host_file();

}  // namespace trireme::cli
