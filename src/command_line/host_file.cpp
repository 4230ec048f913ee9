#include "command_line/host_file.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "trireme/cluster_file.h"
#include "trireme/error.h"
#include "trireme/host_probe.h"

namespace trireme::cli {
namespace {

/// Read at the start of a command, before a second thread exists. Relative paths are ignored.
std::string absolute_path_in(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && *value == '/' ? value : "";
}

}  // namespace

std::string cache_folder() {
  const std::string folder = absolute_path_in("XDG_CACHE_HOME");
  if (!folder.empty()) {
    return folder + "/trireme";
  }
  const std::string home = absolute_path_in("HOME");
  return home.empty() ? "" : home + "/.cache/trireme";
}

std::string host_file_path() {
  const std::string folder = cache_folder();
  if (folder.empty()) {
    throw Error(ErrorKind::Usage,
                "no folder for the costs of this host: set HOME or XDG_CACHE_HOME");
  }
  return folder + "/" + measure::host_name() + ".cluster.json";
}

std::string writable_host_file() {
  std::string path = host_file_path();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::System,
                fmt::format("cannot create the folder '{}': {}", folder.string(), error.message()));
  }
  return path;
}

std::optional<Cluster> load_host_file() {
  const std::string path = host_file_path();
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? std::optional(read_cluster_file(path))
                                                : std::nullopt;
}

std::optional<Cluster> find_host_file() {
  try {
    return load_host_file();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace trireme::cli
