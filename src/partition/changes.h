// Resharding: from one placement of a value to another, one collective along one axis at a time. Callable from any
// thread.
#pragma once

#include <vector>

#include "trireme/placement.h"

namespace trireme::partition {

enum class ChangeKind : std::uint8_t {
  Slice,          ///< replicated to sharded: nothing is sent
  AllGather,      ///< sharded to replicated
  AllToAll,       ///< sharded to sharded along another dimension
  AllReduce,      ///< partial to replicated
  ReduceScatter,  ///< partial to sharded
};

struct Change {
  ChangeKind kind = ChangeKind::Slice;
  int axis = 0;
  int dimension = -1;  ///< sharded before (AllGather, AllToAll), or after (Slice, ReduceScatter)
  int to = -1;         ///< AllToAll: sharded after
  Placement result{};
};

/// The changes, in order; none if the placements are the same.
[[nodiscard]] std::vector<Change> changes_between(const Placement& from, const Placement& to,
                                                  const Shape& shape, const Axes& axes);

/// Elements that a device sends (and receives) in it, for a value of this shape.
[[nodiscard]] double elements_moved(const Change& change, const Placement& from, const Shape& shape,
                                    const Axes& axes);
[[nodiscard]] double elements_moved(const Placement& from, const Placement& to, const Shape& shape,
                                    const Axes& axes);

}  // namespace trireme::partition
