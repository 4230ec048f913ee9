#include "cli/load_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "command_line/host_file.h"
#include "trireme/cluster_file.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

bool is_file_name(const std::string& text) {
  return text.ends_with(".json") || text.find('/') != std::string::npos;
}

/// A hint for an unknown name: whether it is a device, and that files are accepted too.
std::string hint(const std::string& name) {
  const std::vector<std::string> devices = device_preset_names();
  const bool device = std::find(devices.begin(), devices.end(), name) != devices.end();
  return fmt::format("{}also 'this', the probed host, or a file: *.json, or a path with '/'",
                     device ? fmt::format("'{}' is a device; use a cluster of it; ", name) : "");
}

Cluster this_host() {
  std::optional<Cluster> host = load_host_file();
  if (!host) {
    throw Error(ErrorKind::Usage, "this host has not been measured; run 'trireme probe' first");
  }
  return std::move(*host);
}

}  // namespace

Cluster load_cluster(const std::string& name_or_file) {
  if (is_file_name(name_or_file)) {
    return read_cluster_file(name_or_file);
  }
  if (name_or_file == "this") {
    return this_host();
  }
  try {
    return cluster_preset(name_or_file);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{} ({})", error.what(), hint(name_or_file)));
  }
}

}  // namespace trireme::cli
