// Resolves the cluster that a command line names.
#pragma once

#include <string>

#include "trireme/cluster.h"

namespace trireme::cli {

/// A preset ("dgx-h100", "dgx-h100:4"), "this" for the host that `trireme probe` has measured, or a file if the text ends
/// in ".json" or contains a '/'. Throws Error(Usage) on an unknown preset or an unmeasured host, Error(Input) on a file that is missing,
/// unreadable or not a cluster.
[[nodiscard]] Cluster load_cluster(const std::string& name_or_file);

}  // namespace trireme::cli
