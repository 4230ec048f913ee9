#include "trireme/cluster_file.h"

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/files.h"

namespace trireme {

Cluster read_cluster_file(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return parse_cluster(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace trireme
