// How much memory this process may still take.
#pragma once

#include <string>

#include "trireme/units.h"

namespace trireme::train {

struct AvailableMemory {
  Bytes bytes{};
  std::string
      reason{};  ///< who says so: "available on this machine", "left in the control group /a/b"
};

/// The least of what the machine has left and what each control group of this process (of version 1 or 2) has
/// left; pages of files that can be dropped count as left. Without any answer: all there can be. `root` is
/// where proc and sys are looked for.
[[nodiscard]] AvailableMemory available_memory(const std::string& root = "");

}  // namespace trireme::train
