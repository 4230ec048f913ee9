// The placements in which each value exists so far, and how to get it in another one. One thread at a time.
#pragma once

#include <vector>

#include "base/indexed_vector.h"
#include "partition/placed.h"

namespace trireme::partition {

class KnownCopies {
 public:
  /// Whether a copy becomes the value's placement from now on, or is an additional one.
  enum class Rank { Primary, Other };

  /// Adds copies and changes to `placed`, which must outlive this object.
  explicit KnownCopies(Placed& placed) : placed_(placed) {}
  void resize(std::size_t values) { known_.resize(values); }

  /// A primary copy, made by this step (-1: exists when the step begins).
  CopyId add(ValueId id, const Placement& placement, std::int32_t step);
  [[nodiscard]] bool any(ValueId id) const { return !known(id).empty(); }
  /// The value's placement before anything requests another one.
  [[nodiscard]] CopyId primary(ValueId id) const;

  /// A copy with this placement, for a step of this phase, block and stage; adds the steps that create it if there is
  /// none.
  CopyId get(ValueId id, const Placement& wanted, const PlacedStep& like);
  /// Bytes that get() would move.
  [[nodiscard]] double cost_to_get(ValueId id, const Placement& wanted, Phase phase,
                                   int stage) const;
  CopyId change(CopyId from, const Placement& wanted, const PlacedStep& like, Rank rank);

 private:
  static constexpr int kAlways = -1;
  /// A copy and when it can be used: in one part of the step on one stage, or always.
  struct Known {
    CopyId copy;
    int part;
    int stage;
    Rank rank;
  };

  [[nodiscard]] const Shape& shape(ValueId id) const { return placed_.graph.value(id).type.shape; }
  [[nodiscard]] const std::vector<Known>& known(ValueId id) const { return known_[id]; }
  CopyId add_copy(ValueId id, const Placement& placement, std::int32_t step, Known how);
  [[nodiscard]] CopyId source(ValueId id, const Placement& wanted, int part, int stage) const;

  Placed& placed_;
  IndexedVector<ValueId, std::vector<Known>> known_;  ///< by value
};

}  // namespace trireme::partition
