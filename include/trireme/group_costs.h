// What collectives and messages of the groups of a layout cost on a cluster: the closed forms of `collective` on the links
// that the group uses.
//
// Immutable; any thread.
#pragma once

#include "trireme/cluster.h"
#include "trireme/collective_cost.h"
#include "trireme/efficiency.h"

namespace trireme {

/// `ranks` ranks, `per_node` of them on each node that the group touches.
struct GroupShape {
  int ranks = 1;
  int per_node = 1;

  /// A group of `ranks` whose neighbors are `stride` ranks apart.
  [[nodiscard]] static GroupShape of(int ranks, int stride, int devices_per_node);
  /// Both at once: the group of every rank of one with every rank of the other.
  [[nodiscard]] static GroupShape product(const GroupShape& a, const GroupShape& b) {
    return {.ranks = a.ranks * b.ranks, .per_node = a.per_node * b.per_node};
  }
};

class GroupCosts {
 public:
  GroupCosts(const Cluster& cluster, const Efficiency& efficiency);

  // Seconds. `bytes` is the whole vector, as in collective.h.

  [[nodiscard]] double allreduce(const GroupShape& group, double bytes) const;
  [[nodiscard]] double allgather(const GroupShape& group, double bytes) const;
  [[nodiscard]] double reduce_scatter(const GroupShape& group, double bytes) const;
  /// `bytes` is what each rank sends, its own share included.
  /// An all-gather or a reduce-scatter of hardly any bytes, in ceil(log2 ranks) rounds.
  [[nodiscard]] double small_collective(const GroupShape& group) const;
  [[nodiscard]] double alltoall(const GroupShape& group, double bytes) const;
  /// Between neighbors of a group; over the network if the group has ranks on several nodes.
  [[nodiscard]] double message(const GroupShape& group, double bytes) const;

  /// How long starting a collective takes before data moves.
  [[nodiscard]] double start() const noexcept { return start_; }
  [[nodiscard]] int devices_per_node() const noexcept { return devices_per_node_; }

 private:
  [[nodiscard]] double collective(Operation operation, const GroupShape& group, double bytes) const;

  int devices_per_node_ = 1;
  double start_ = 0;  ///< seconds of a collective before data moves
  LinkLevel node_;
  LinkLevel network_;
  Seconds gamma_;
};

}  // namespace trireme
