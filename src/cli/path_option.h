// The check of options that take a path.
#pragma once

#include <string>

namespace trireme::cli {

/// Rejects an empty path, such as one from an unset variable.
inline std::string non_empty_path(const std::string& path) {
  return path.empty() ? "expected a path" : "";
}

}  // namespace trireme::cli
