// Selects the element-wise nodes of a graph to fuse. Callable from any thread.
//
// A node joins its readers' group if all of them are in the same one; so only the last node of a group is read from
// outside, and the fused node can take its place. One backward sweep finds all groups, because readers come later.
//
// A group is confined to one run of nodes of the same phase and block, without messages to or from other stages: sums
// over micro-batches accumulate on arrival. Fused at the end, they would keep all parts until then.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/outline.h"

namespace trireme {

/// By node, its group, identified by its last node. A node that is fused with nothing is its own group.
[[nodiscard]] std::vector<std::size_t> fusion_groups(const Outline& outline);

/// The inputs of a fused node, in order: the operands that none of its nodes computes, those of the result's type
/// first, because they determine the fused node's type.
[[nodiscard]] std::vector<ValueId> fused_inputs(const Outline& outline,
                                                const std::vector<std::size_t>& nodes);

/// The nodes of each group, by group.
[[nodiscard]] std::vector<std::vector<std::size_t>> members_of(
    const std::vector<std::size_t>& groups);

/// The outline of the fused graph. Values keep their numbers; those inside of fused nodes belong to no node.
[[nodiscard]] Outline fuse_elementwise(const Outline& outline);

}  // namespace trireme
