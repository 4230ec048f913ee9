#include "planner/placement_costs.h"

namespace trireme::planner {

PlacementCosts::PlacementCosts(const Cluster& cluster, const Mesh& mesh)
    : links_(cluster, efficiency_of(cluster)) {
  int stride = mesh.devices();
  for (const MeshAxis& axis : mesh.axes()) {
    stride /= axis.size;
    sizes_.push_back(axis.size);
    groups_.push_back(GroupShape::of(axis.size, stride, cluster.devices_per_node));
  }
}

double PlacementCosts::shards(const AxisDims& placement) const {
  double count = 1;
  for (std::size_t a = 0; a < sizes_.size(); ++a) {
    count *= placement[a] >= 0 ? sizes_[a] : 1;
  }
  return count;
}

/// `bytes` are those that the group holds together.
double PlacementCosts::change_along(std::size_t axis, int from, int to, double bytes) const {
  const GroupShape& group = groups_[axis];
  if (from == to || from == kReplicatedDim) {
    return 0;
  }
  if (from == kPartialDim) {
    return to == kReplicatedDim ? links_.allreduce(group, bytes)
                                : links_.reduce_scatter(group, bytes);
  }
  return to == kReplicatedDim ? links_.allgather(group, bytes)
                              : links_.alltoall(group, bytes / group.ranks);
}

double PlacementCosts::change(const AxisDims& from, const AxisDims& to, double bytes) const {
  double seconds = 0;
  AxisDims now = from;
  for (std::size_t a = 0; a < sizes_.size(); ++a) {
    const int other = now[a];
    now[a] = kReplicatedDim;
    seconds += change_along(a, other, to[a], bytes / shards(now));
    now[a] = to[a];
  }
  return seconds;
}

}  // namespace trireme::planner
