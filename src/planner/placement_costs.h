// What it costs on a mesh to bring a value from one placement to another: the re-partition triangle, axis by axis.
// Immutable; any thread.
#pragma once

#include <vector>

#include "trireme/group_costs.h"
#include "trireme/mesh.h"
#include "trireme/op_strategy.h"

namespace trireme::planner {

class PlacementCosts {
 public:
  PlacementCosts(const Cluster& cluster, const Mesh& mesh);

  [[nodiscard]] std::size_t axes() const noexcept { return sizes_.size(); }
  [[nodiscard]] int size(std::size_t axis) const { return sizes_[axis]; }
  /// How many shards a value has.
  [[nodiscard]] double shards(const AxisDims& placement) const;
  /// Seconds to bring a value of this many bytes from one placement to another. A gradient's is from partial to where it
  /// is wanted.
  [[nodiscard]] double change(const AxisDims& from, const AxisDims& to, double bytes) const;

 private:
  [[nodiscard]] double change_along(std::size_t axis, int from, int to, double bytes) const;

  std::vector<int> sizes_;
  std::vector<GroupShape> groups_;  ///< by axis
  GroupCosts links_;
};

}  // namespace trireme::planner
