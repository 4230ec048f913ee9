// From placed steps to the outline of one rank: the graph of lower(), reduced to memory. Callable from any thread.
#pragma once

#include "graph/outline.h"
#include "partition/rank_writer.h"
#include "partition/shard_types.h"
#include "trireme/rank_graph.h"

namespace trireme::partition {

/// The outline at a place; not fused yet. `types` are those of the place's coordinates. Throws as lower().
[[nodiscard]] Outline outline_at(const SharedOrder& shared, const RankPlace& place,
                                 ShardTypes& types);

}  // namespace trireme::partition
