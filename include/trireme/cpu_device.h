// The CPU device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "trireme/device.h"

namespace trireme {

/// The instruction set that the kernels' loops are compiled for. (oneDNN chooses its own for matrix products and
/// convolutions.)
enum class Instructions : std::uint8_t { Widest, Baseline, Avx2, Avx512 };
[[nodiscard]] std::string_view to_text(Instructions instructions);

struct CpuOptions {
  int threads = 0;     ///< 0: one per core that the process may use
  bool pinned = true;  ///< each thread to its own core
  Instructions instructions = Instructions::Widest;
  /// Each row of a matrix product has the same bits however many other rows there are, and a product with one row runs
  /// at memory speed. For generating text token by token; products with many rows are slower.
  bool row_invariant = false;
};

/// Whether this processor and this build support the instruction set.
[[nodiscard]] bool has_instructions(Instructions instructions);

/// Kernels run on OpenMP threads. Throws Error(Usage) if has_instructions() is false. Threads are not pinned if
/// there are fewer cores than threads.
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

/// Creates the devices of ranks that share a machine: each has this many threads, or (0) its share of the cores.
[[nodiscard]] DeviceFactory cpu_devices(int threads = 0);
/// The same for other options; ranks that share a machine are not pinned.
[[nodiscard]] DeviceFactory cpu_devices(const CpuOptions& options);

}  // namespace trireme
