// Clusters and the list of presets as text. Callable from any thread.
#pragma once

#include <string>

#include "trireme/cluster.h"

namespace trireme::report {

[[nodiscard]] std::string cluster_text(const Cluster& cluster);

/// All presets of clusters and devices.
[[nodiscard]] std::string preset_list_text();
[[nodiscard]] std::string preset_list_json();

}  // namespace trireme::report
