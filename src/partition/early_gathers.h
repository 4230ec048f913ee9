// Prefetching: starts gathers of parameters and state before they are needed, so that they overlap with earlier
// computation. Callable from any thread.
#pragma once

#include "partition/run_order.h"

namespace trireme::partition {

/// The same order with gathers moved forward as far as memory allows, on every place of the pipeline.
///
/// A gather can move if its input exists when the step begins: a shard of a parameter, for example. The results and
/// scratch of gathers started ahead are at most as large as the gathers of one block in one phase of the step (the
/// largest gather, if there are no blocks); this bounds the additional memory. A larger gather does not move. With
/// memory for two:
///
///   gather a, use a, gather b, use b, gather c, use c   becomes   gather a, gather b, gather c, use a, use b, use c
///
/// and with memory for one   gather a, gather b, use a, gather c, use b, use c.
///
/// Gathers keep their relative order, which depends only on the place, so that all ranks of a group agree.
[[nodiscard]] RunOrder start_gathers_early(const Placed& placed, RunOrder order);

}  // namespace trireme::partition
