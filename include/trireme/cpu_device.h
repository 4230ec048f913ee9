// The CPU device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trireme/device.h"

namespace trireme {

/// The instruction set that the kernels' loops are compiled for. (oneDNN chooses its own for matrix products and
/// convolutions.)
enum class Instructions : std::uint8_t { Widest, Baseline, Avx2, Avx512 };

struct CpuOptions {
  int threads = 0;     ///< 0: one per core that the process may use
  bool pinned = true;  ///< each thread to its own core
  Instructions instructions = Instructions::Widest;
};

/// Whether this processor supports them and this build has loops for them.
[[nodiscard]] bool has_instructions(Instructions instructions);

/// Kernels run on OpenMP threads. Throws Error(Usage) if has_instructions() is false. Threads are not pinned if
/// there are fewer cores than threads.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

/// Makes the devices of ranks that share a machine: each has so many threads, or (0) its part of the cores.
[[nodiscard]] std::function<std::unique_ptr<Device>(int ranks)> cpu_devices(int threads = 0);

}  // namespace trireme
