// Whether all places of a pipeline can finish their turns. Callable from any thread.
#pragma once

#include "partition/placed.h"
#include "partition/run_order.h"
#include "trireme/pipeline.h"

namespace trireme::partition {

/// Throws Error(Usage) that names a turn if places wait for one another forever. A table guarantees progress only for
/// stages that need nothing from later ones in the forward pass, and nothing from earlier ones in the backward pass.
void require_progress(const Placed& placed, const PipelineTable& table, const RunOrder& order);

}  // namespace trireme::partition
