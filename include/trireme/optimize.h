// Passes that make a graph cheaper without changing what it computes. Each is a function from graph to graph;
// leaves, outputs and updates stay, and so do the names of values that are left. Any thread.
#pragma once

#include "trireme/graph.h"

namespace trireme {

/// Leaves out nodes whose results no output and no update needs.
[[nodiscard]] Graph remove_dead_nodes(const Graph& graph);

/// Leaves out nodes that compute what an earlier one did: the same op, inputs and attributes. Only within a
/// phase and a block, so that nothing that is computed again on purpose is kept instead, and that no value
/// begins to cross from one block to another.
[[nodiscard]] Graph merge_equal_nodes(const Graph& graph);

/// Makes one `fused` node of element-wise nodes of one type, phase and block that only one another read, but for
/// the last. Comes last: gradients, recomputation and other passes see ops, not programs. In f64 results stay
/// the same bit for bit; in smaller types they are rounded less often.
[[nodiscard]] Graph fuse_elementwise(const Graph& graph);

}  // namespace trireme
