// IsolatedDevice: the CPU's kernels behind the limits of an accelerator, so that every test of the boundary between host
// and device runs on machines without one.
//
// - Its memory cannot be accessed at the addresses that it hands out: a host that tries gets SIGSEGV. Kernels and copies
//   translate them.
// - Each stream is a thread. Work waits for random times from a seed before it starts, and a copy's target holds garbage
//   until then, so that whoever forgets to wait computes something else.
// - It may ask for all fusions; the CPU runs their ops by reference.
// - Buffers need more than the usual alignment, memory is limited, sequences of kernels are recorded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "trireme/device.h"

namespace trireme {

inline constexpr Fusions kAllFusions{
    .classifier = true, .projections = true, .products = true, .norms = true, .updates = true};

/// What the host has done with a device.
struct IsolatedCounts {
  std::atomic<int> launches{0};          ///< kernels and recordings
  std::atomic<int> replays{0};           ///< recordings
  std::atomic<int> synchronizations{0};  ///< of streams
  std::atomic<int> host_allocations{0};
};

struct IsolatedOptions {
  std::uint64_t seed = 1;         ///< of the delays
  Seconds longest_delay{100e-6};  ///< of a piece of work
  Bytes memory{std::int64_t{1} << 36};
  Fusions fusions{};
  bool cannot_record = false;  ///< recording kernels fails
  std::shared_ptr<IsolatedCounts> counts = std::make_shared<IsolatedCounts>();
};

/// Kernels run on one thread per stream.
[[nodiscard]] std::unique_ptr<Device> make_isolated_device(const IsolatedOptions& options = {});

/// Makes the devices of ranks, with seeds from `options.seed` on. Thread-safe.
[[nodiscard]] DeviceFactory isolated_devices(const IsolatedOptions& options = {});

}  // namespace trireme
