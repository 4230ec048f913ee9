#include "trireme/group_costs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme {
namespace {

/// A collective of GPUs is a kernel that the host launches and whose ranks first meet. NCCL's all-reduces on 2, 4 and 8
/// A100s of a node take 87, 117 and 134 us for 8 MiB, 132, 180 and 232 us for 16 MiB (measured by the authors of vTrain,
/// MICRO 2024): 50 to 100 us more than hops and bandwidth account for.
constexpr double kCollectiveStart = 60e-6;

}  // namespace

GroupShape GroupShape::of(int ranks, int stride, int devices_per_node) {
  const int fit = std::max(1, devices_per_node / std::max(1, stride));
  return {.ranks = ranks, .per_node = std::gcd(ranks, std::min(ranks, fit))};
}

GroupCosts::GroupCosts(const Cluster& cluster, const Efficiency& efficiency)
    : devices_per_node_(cluster.devices_per_node),
      start_(efficiency.units > 0 ? kCollectiveStart : 0),
      gamma_(cluster.gamma) {
  if (cluster.links.empty()) {
    return;  // one device
  }
  const Link& node = cluster.links.front();
  const Link& network = cluster.links.back();
  const double network_share =
      cluster.links.size() > 1 ? efficiency.network_links : efficiency.node_links;
  node_ = {.span = cluster.devices_per_node,
           .alpha = node.alpha,
           .beta = {node.beta.count / efficiency.node_links}};
  network_ = {.span = 0, .alpha = network.alpha, .beta = {network.beta.count / network_share}};
}

/// A ring over the links of a node or of the network, or the two-level algorithm over both.
double GroupCosts::collective(Operation operation, const GroupShape& group, double bytes) const {
  if (group.ranks <= 1) {
    return 0;
  }
  const bool one_node = group.per_node == group.ranks;
  if (one_node || group.per_node == 1) {
    const Algorithm flat = operation == Operation::Alltoall ? Algorithm::Pairwise : Algorithm::Ring;
    const Formula f = formula(operation, flat, {.ranks = group.ranks});
    return start_ + f.inner.at(bytes, one_node ? node_ : network_, gamma_).count;
  }
  const Formula f = formula(operation, Algorithm::TwoLevel,
                            {.ranks = group.ranks, .ranks_per_node = group.per_node});
  return start_ + f.inner.at(bytes, node_, gamma_).count +
         f.outer.at(bytes, network_, gamma_).count;
}

double GroupCosts::allreduce(const GroupShape& group, double bytes) const {
  return collective(Operation::Allreduce, group, bytes);
}

double GroupCosts::allgather(const GroupShape& group, double bytes) const {
  return collective(Operation::Allgather, group, bytes);
}

double GroupCosts::reduce_scatter(const GroupShape& group, double bytes) const {
  return collective(Operation::ReduceScatter, group, bytes);
}

double GroupCosts::alltoall(const GroupShape& group, double bytes) const {
  return collective(Operation::Alltoall, group, bytes);
}

double GroupCosts::small_collective(const GroupShape& group) const {
  if (group.ranks <= 1) {
    return 0;
  }
  const LinkLevel& link = group.per_node == group.ranks ? node_ : network_;
  return start_ + std::ceil(std::log2(group.ranks)) * link.alpha.count;
}

double GroupCosts::message(const GroupShape& group, double bytes) const {
  const LinkLevel& link = group.per_node == group.ranks ? node_ : network_;
  return link.alpha.count + bytes * link.beta.count;
}

}  // namespace trireme
