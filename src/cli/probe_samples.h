// The training steps whose kernels `trireme probe` times.
#pragma once

#include <vector>

#include "trireme/compute_probe.h"

namespace trireme::cli {

struct SampleOptions {
  bool quick = false;  ///< fewer and smaller steps, for a probe of about a second
};

/// Small models of every kind, at several sizes and sharded in several ways, so that the kernels cover what plans run.
[[nodiscard]] std::vector<Program> probe_samples(const SampleOptions& options);

/// For the CPU device.
[[nodiscard]] measure::ComputeProbeOptions compute_probe_options(int cores,
                                                                 const SampleOptions& options);

}  // namespace trireme::cli
