// What all ranks did in one step, in one picture.
#pragma once

#include "trireme/comm.h"
#include "trireme/trace.h"

namespace trireme::cli {

/// The traces of all ranks in one, on rank 0, and nothing on the others. Every rank of the world calls it.
[[nodiscard]] Trace gather_traces(World& world, Trace mine);

}  // namespace trireme::cli
