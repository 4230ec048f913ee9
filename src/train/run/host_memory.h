// How much more memory this process may allocate.
#pragma once

#include <string>

#include "trireme/units.h"

namespace trireme::train {

struct AvailableMemory {
  Bytes bytes{};
  std::string reason{};  ///< "available on this machine", "left in the control group /a/b"
};

/// The minimum of the memory available on the machine and in each control group (v1 or v2) of this process; reclaimable
/// page cache counts as available. Unlimited if nothing can be determined. `root` is prepended to /proc and /sys.
[[nodiscard]] AvailableMemory available_memory(const std::string& root = "");

}  // namespace trireme::train
