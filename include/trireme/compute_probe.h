// Measures the compute speed of this host: times the kernels of sample programs on a device, on one rank and on several
// at once, and fits them to ComputeCosts.
//
// probe_compute() forks, so call it before creating a thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/compute_costs.h"
#include "trireme/device.h"
#include "trireme/program.h"

namespace trireme::measure {

struct ComputeProbeOptions {
  int cores = 1;
  /// Their kernels are timed in order, so that each finds its operands where a training step would: in cache or not.
  /// Communication is excluded.
  std::vector<Program> programs{};
  /// Creates the device of one of `ranks` ranks that share the host, with this many threads.
  std::function<std::unique_ptr<Device>(int ranks, int threads)> make_device{};
  int repeats = 7;  ///< per program; takes the median
};

/// Times one rank on all cores, one rank on one core, and a rank on every core. Starts processes; all have ended when
/// it returns. Calls `progress` with the next measurement.
[[nodiscard]] ComputeCosts probe_compute(const ComputeProbeOptions& options,
                                         const std::function<void(const std::string&)>& progress);

}  // namespace trireme::measure
