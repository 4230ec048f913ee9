// Whether the checkpoints of a run fit on its disk. Callable from any thread.
#pragma once

#include <string>

#include "trireme/units.h"

namespace trireme::train {

struct DiskNeed {
  std::string folder{};  ///< of the run; exists
  Bytes checkpoint{};    ///< size of one
  int saved = 0;         ///< checkpoints that are there already
  int keep = 1;          ///< how many the run keeps; one more exists while it saves
};

/// Throws Error(System) if not even one checkpoint fits into `available`. Returns a warning if fewer fit than the run
/// keeps, "" if all do.
[[nodiscard]] std::string check_disk_space(const DiskNeed& need, Bytes available);

/// The space that a process may use on the file system of a folder; unlimited if that cannot be determined.
[[nodiscard]] Bytes free_disk_space(const std::string& folder);

}  // namespace trireme::train
