// One trace of what all ranks did in a step.
#pragma once

#include "trireme/comm.h"
#include "trireme/trace.h"

namespace trireme::train {

/// All ranks call it with their own; rank 0 gets all of them in one, the others nothing.
[[nodiscard]] Trace gather_traces(World& world, Trace mine);

}  // namespace trireme::train
