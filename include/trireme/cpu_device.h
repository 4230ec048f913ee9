// The device that every machine has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trireme/device.h"

namespace trireme {

/// What the loops over data are compiled for. (Products and convolutions of oneDNN choose for themselves.)
enum class Instructions : std::uint8_t { Widest, Baseline, Avx2, Avx512 };

struct CpuOptions {
  int threads = 0;     ///< 0: one for each core that the process may use
  bool pinned = true;  ///< each thread to a core of its own
  Instructions instructions = Instructions::Widest;
};

/// Whether this processor has them.
[[nodiscard]] bool has_instructions(Instructions instructions);

/// Kernels run on OpenMP's threads. Throws Error(Usage) if the processor lacks the instructions. Threads are not
/// pinned where there are fewer cores.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

/// Makes the devices of ranks that share a machine: each has so many threads, or (0) its part of the cores.
[[nodiscard]] std::function<std::unique_ptr<Device>(int ranks)> cpu_devices(int threads = 0);

}  // namespace trireme
