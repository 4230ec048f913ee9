// Collects the traces of all ranks for one step.
#pragma once

#include "trireme/comm.h"
#include "trireme/trace.h"

namespace trireme::train {

/// Collective: rank 0 gets the merged trace, the others an empty one.
[[nodiscard]] Trace gather_traces(World& world, Trace mine);

}  // namespace trireme::train
