// Paths of models as users write them.
#pragma once

#include <string>

namespace trireme {

/// "model" for "model/"; "/" is unchanged.
[[nodiscard]] inline std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

}  // namespace trireme
