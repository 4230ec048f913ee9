// The device that every machine has.
#pragma once

#include <memory>

#include "trireme/device.h"

namespace trireme {

struct CpuOptions {
  int threads = 0;     ///< 0: one for each core that the process may use
  bool pinned = true;  ///< each thread to a core of its own
};

/// Kernels run on OpenMP's threads, by the widest instructions of the processor. Throws Error(Usage) if there
/// are fewer cores than threads and they should be pinned.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

}  // namespace trireme
