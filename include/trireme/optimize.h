// Optimization passes that preserve a graph's results. Each is a function from graph to graph; leaves, outputs, updates
// and the names of remaining values do not change. Callable from any thread.
#pragma once

#include "trireme/fusions.h"
#include "trireme/graph.h"

namespace trireme {

/// Removes nodes whose results no output or update needs.
[[nodiscard]] Graph remove_dead_nodes(const Graph& graph);

/// Common subexpression elimination: removes nodes that repeat an earlier one with the same op, inputs and attributes.
/// Only within a phase and a block, so that it neither undoes recomputation nor makes a value cross from one block to
/// another.
[[nodiscard]] Graph merge_equal_nodes(const Graph& graph);

/// Fuses element-wise nodes of one type, phase and block into one `fused` node if only nodes of the fusion read all
/// results but the last. Run it last: gradients, recomputation and other passes need to see ops. f64 results are
/// identical bit for bit; narrower types are rounded less often.
[[nodiscard]] Graph fuse_elementwise(const Graph& graph);

/// Replaces a cross-entropy and its backward with one `classifier` node, and pads its classes if their number is not a
/// multiple of 8, because unaligned matrix products are slow. Losses and gradients do not change.
[[nodiscard]] Graph fuse_classifier(const Graph& graph);

/// Replaces the three products that compute q, k and v from one x, their gradients and the attention between them with
/// one product each and `attention_packed`. Skips partial matches.
[[nodiscard]] Graph fuse_projections(const Graph& graph);

/// Fuses the requested products, norms and optimizers with the nodes that follow them, into one node each.
[[nodiscard]] Graph fuse_followers(const Graph& graph, const Fusions& wanted);

/// Applies a device's fusions, then fuses element-wise nodes. Run it last, on the graph of a rank.
[[nodiscard]] Graph fuse_for(const Graph& graph, const Fusions& wanted);

}  // namespace trireme
