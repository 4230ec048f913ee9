// Training steps whose kernels are representative of plans, for a probe to time. Callable from any thread.
#pragma once

#include <vector>

#include "trireme/program.h"

namespace trireme {

struct SampleStepOptions {
  bool quick = false;  ///< fewer and smaller steps, which take about a second to time
};

/// Small models of every kind, at several sizes and sharded in several ways.
[[nodiscard]] std::vector<Program> sample_steps(const SampleStepOptions& options);

}  // namespace trireme
