#include "trireme/valid.h"

namespace trireme {

void throw_first(const std::vector<std::string>& problems, ErrorKind kind, std::string_view what) {
  if (problems.empty()) {
    return;
  }
  const std::string prefix = what.empty() ? "" : std::string(what) + ": ";
  throw Error(kind, prefix + problems.front());
}

}  // namespace trireme
