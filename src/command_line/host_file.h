// The costs of this host, saved by `trireme probe` for the other commands.
#pragma once

#include <optional>
#include <string>

#include "trireme/cluster.h"

namespace trireme::cli {

/// $XDG_CACHE_HOME/trireme, or under ~/.cache; empty if the environment names neither.
[[nodiscard]] std::string cache_folder();
/// $XDG_CACHE_HOME/trireme/HOST.cluster.json, or under ~/.cache. Throws Error(Usage) if the
/// environment names neither.
[[nodiscard]] std::string host_file_path();
/// The same, whose folder it creates.
[[nodiscard]] std::string writable_host_file();
/// The cluster in that file; nothing if the file does not exist. Throws Error if it cannot be read.
[[nodiscard]] std::optional<Cluster> load_host_file();
/// The same, but nullopt if there is no such folder or the file cannot be read: for commands that benefit from it but
/// work without it.
[[nodiscard]] std::optional<Cluster> find_host_file();

}  // namespace trireme::cli
