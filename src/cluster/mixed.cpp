// Clusters whose nodes differ.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "cluster/names.h"
#include "trireme/cluster.h"

namespace trireme {
namespace {

/// The minimum over all kinds; nullopt if any is unknown.
template <class T, class Get>
std::optional<T> least(const std::vector<NodeKind>& kinds, const Get& get) {
  std::optional<T> result;
  for (const NodeKind& kind : kinds) {
    const std::optional<T> value = get(kind.device);
    if (!value) {
      return std::nullopt;
    }
    result = !result || value->count < result->count ? value : result;
  }
  return result;
}

DeviceSpec weakest_device(const std::vector<NodeKind>& kinds) {
  DeviceSpec weakest;
  for (const NodeKind& kind : kinds) {
    weakest.name += (weakest.name.empty() ? "" : "+") + kind.device.name;
  }
  weakest.memory = least<Bytes>(kinds, [](const DeviceSpec& d) { return d.memory; });
  weakest.memory_bandwidth =
      least<ByteRate>(kinds, [](const DeviceSpec& d) { return d.memory_bandwidth; });
  for (const std::string& type : peak_types()) {
    const Peak peak{
        .dtype = type,
        .dense = least<FlopRate>(kinds, [&](const DeviceSpec& d) { return d.peak(type); }),
        .sparse = least<FlopRate>(
            kinds, [&](const DeviceSpec& d) { return d.peak(type, Sparsity::Structured); })};
    if (peak.dense || peak.sparse) {
      weakest.peaks.push_back(peak);
    }
  }
  weakest.source = "the weakest of the kinds in every respect";
  return weakest;
}

std::vector<Link> weakest_links(const std::vector<NodeKind>& kinds) {
  std::vector<Link> links = kinds.front().links;
  for (const NodeKind& kind : kinds) {
    for (std::size_t i = 0; i < std::min(links.size(), kind.links.size()); ++i) {
      links[i].alpha = std::max(links[i].alpha, kind.links[i].alpha);
      if (kind.links[i].beta > links[i].beta) {
        links[i].beta = kind.links[i].beta;
        links[i].source = kind.links[i].source;
      }
    }
  }
  return links;
}

double matrix_rate(const DeviceSpec& device) {
  const std::optional<FlopRate> peak =
      device.peak("bf16") ? device.peak("bf16") : device.peak("f16");
  return peak ? peak->count : std::numeric_limits<double>::infinity();
}

}  // namespace

Cluster nodes_of_kind(const Cluster& cluster, std::size_t kind) {
  const NodeKind& nodes = cluster.kinds.at(kind);
  Cluster part = cluster;
  part.kinds.clear();
  part.nodes = nodes.nodes;
  part.device = nodes.device;
  part.efficiency = nodes.efficiency;
  part.links.clear();
  for (Link link : nodes.links) {
    link.reach = std::min(link.reach, part.devices());
    if (link.reach > (part.links.empty() ? 1 : part.links.back().reach)) {
      part.links.push_back(std::move(link));
    }
  }
  return part;
}

Cluster with_weakest(Cluster cluster) {
  TRIREME_CHECK(cluster.is_mixed(), cluster.name);
  cluster.device = weakest_device(cluster.kinds);
  cluster.links = weakest_links(cluster.kinds);
  const auto slowest = std::ranges::min_element(
      cluster.kinds, {}, [](const NodeKind& kind) { return matrix_rate(kind.device); });
  cluster.efficiency = efficiency_of(nodes_of_kind(cluster, slowest - cluster.kinds.begin()));
  return cluster;
}

}  // namespace trireme
