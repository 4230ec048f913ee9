// From placed steps to the graph of one rank. Callable from any thread.
#pragma once

#include "partition/placed.h"
#include "trireme/rank_graph.h"

namespace trireme::partition {

/// Throws Error(Usage) if the table has other stages or micro-batches, or if a node needs several micro-batches, or the
/// update of several stages, that the table does not provide at the same time.
[[nodiscard]] RankGraph lower(const Placed& placed, const RankPlace& place,
                              const PipelineTable& table);

}  // namespace trireme::partition
