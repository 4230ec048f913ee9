// Which ranks of a plan run the same. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "partition/placed.h"
#include "trireme/program_set.h"
#include "trireme/rank_graph.h"

namespace trireme::partition {

/// What ranks of one kind have in common.
enum class Alike : std::uint8_t {
  Sizes,  ///< shards of the same sizes of everything, and so the same memory
  Work,   ///< also the same FLOPs: of causal attention, a later shard of the queries has more to do
};

/// By axis (as Placed::axes()) and coordinate: a number shared by coordinates that are alike for any other coordinates.
/// Along an axis whose operands circulate in a ring, every coordinate has its own: its messages depend on its position.
[[nodiscard]] std::vector<std::vector<std::size_t>> coordinate_kinds(const Placed& placed,
                                                                     Alike alike);

/// Of ranks at these places. They are of one kind if they have the same pipeline coordinate, and coordinates that are alike
/// on all other axes.
[[nodiscard]] RankKinds rank_kinds(const Placed& placed, std::span<const RankPlace> places,
                                   Alike alike);

}  // namespace trireme::partition
