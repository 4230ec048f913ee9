// The re-partition triangle: from one placement of a value to another, one exchange along one axis at a time.
// Any thread.
#pragma once

#include <vector>

#include "trireme/placement.h"

namespace trireme::partition {

enum class ChangeKind : std::uint8_t {
  Slice,          ///< replicated to cut: nothing is sent
  AllGather,      ///< cut to replicated
  AllToAll,       ///< cut to cut along another dimension
  AllReduce,      ///< partial to replicated
  ReduceScatter,  ///< partial to cut
};

struct Change {
  ChangeKind kind = ChangeKind::Slice;
  int axis = 0;
  int dimension = -1;  ///< cut before (AllGather, AllToAll), or after (Slice, ReduceScatter)
  int to = -1;         ///< AllToAll: cut after
  Placement result{};
};

/// The exchanges, in order; none if the placements are the same.
[[nodiscard]] std::vector<Change> changes_between(const Placement& from, const Placement& to,
                                                  const Shape& shape, const Axes& axes);

/// Elements that a device sends (and receives) in it, of a value of this shape.
[[nodiscard]] double elements_moved(const Change& change, const Placement& from, const Shape& shape,
                                    const Axes& axes);
[[nodiscard]] double elements_moved(const Placement& from, const Placement& to, const Shape& shape,
                                    const Axes& axes);

}  // namespace trireme::partition
