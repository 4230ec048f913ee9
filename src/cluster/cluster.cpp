#include "trireme/cluster.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/text.h"
#include "cluster/check_time.h"
#include "cluster/names.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// More devices than this must be a typo, and ranks are ints.
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

std::string to_text_si(double value, std::string_view unit) {
  static constexpr std::array<std::string_view, 6> kPrefixes{"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  // 999.995 would print as 1000 with five digits.
  while (std::abs(value) >= 999.995 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.5g} {}{}", value, kPrefixes.at(prefix), unit);
}

class ClusterVerifier {
 public:
  explicit ClusterVerifier(const Cluster& cluster) : cluster_(cluster) {}

  std::vector<std::string> run() {
    check_size();
    check_device();
    for (const Peak& peak : cluster_.device.peaks) {
      check_peak(peak);
    }
    check_links();
    check_time("gamma", cluster_.gamma);
    check_kinds();
    if (cluster_.host) {
      for (const std::string& problem : problems(*cluster_.host)) {
        add("host: {}", problem);
      }
    }
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_size() {
    if (cluster_.name.empty()) {
      add("the cluster has no name");
    }
    if (cluster_.nodes < 1) {
      add("nodes is {}; it must be at least 1", cluster_.nodes);
    }
    if (cluster_.devices_per_node < 1) {
      add("devices_per_node is {}; it must be at least 1", cluster_.devices_per_node);
    }
    if (devices() > kMaxDevices) {
      add("{} nodes of {} devices are more than {} devices", cluster_.nodes,
          cluster_.devices_per_node, kMaxDevices);
    }
  }

  void check_device() {
    const DeviceSpec& device = cluster_.device;
    if (device.name.empty()) {
      add("the device has no name");
    }
    if (device.memory && device.memory->count <= 0) {
      add("device {}: memory is {} bytes; leave it out if unknown", device.name,
          device.memory->count);
    }
    if (device.memory_bandwidth) {
      check_rate("memory bandwidth", device.memory_bandwidth->count);
    }
    if (device.power) {
      check_rate("power", device.power->watts);
    }
    if (device.price) {
      check_rate("price", device.price->dollars_per_hour);
    }
  }

  void check_kinds() {
    if (!cluster_.is_mixed() || !problems_.empty()) {
      return;
    }
    std::int64_t nodes = 0;
    for (const NodeKind& kind : cluster_.kinds) {
      nodes += kind.nodes;
      const bool alike =
          std::ranges::equal(kind.links, cluster_.links, {}, &Link::level, &Link::level) &&
          std::ranges::equal(kind.links, cluster_.links, {}, &Link::reach, &Link::reach);
      if (!alike || kind.nodes < 1) {
        add("the nodes with {} need 1 node at least, and links of the same levels and reaches as "
            "the cluster",
            kind.device.name);
      }
    }
    if (cluster_.kinds.size() < 2 || nodes != cluster_.nodes) {
      add("{} kinds have {} nodes, the cluster has {}", cluster_.kinds.size(), nodes,
          cluster_.nodes);
    }
    for (std::size_t kind = 0; problems_.empty() && kind < cluster_.kinds.size(); ++kind) {
      for (const std::string& problem : problems(nodes_of_kind(cluster_, kind))) {
        add("kinds[{}]: {}", kind, problem);
      }
    }
    if (problems_.empty() && with_weakest(cluster_) != cluster_) {
      add("device, links or efficiency are not the weakest of the kinds; leave them out");
    }
  }

  void check_rate(std::string_view what, double rate) {
    if (!std::isfinite(rate) || rate <= 0) {
      add("device {}: {} is {}; leave it out if unknown", cluster_.device.name, what, rate);
    }
  }

  void check_peak(const Peak& peak) {
    const std::vector<Peak>& peaks = cluster_.device.peaks;
    const std::vector<std::string>& types = peak_types();
    if (std::find(types.begin(), types.end(), peak.dtype) == types.end()) {
      add("device {}: unknown number type '{}'; use {}", cluster_.device.name, peak.dtype,
          list_words(types, "or"));
    }
    if (std::count_if(peaks.begin(), peaks.end(),
                      [&](const Peak& other) { return other.dtype == peak.dtype; }) > 1) {
      add("device {}: the peak of {} is given twice", cluster_.device.name, peak.dtype);
    }
    if (!peak.dense && !peak.sparse) {
      add("device {}: the peak of {} is empty; leave it out if unknown", cluster_.device.name,
          peak.dtype);
    }
    for (const std::optional<FlopRate>& rate : {peak.dense, peak.sparse}) {
      if (rate) {
        check_rate("the peak of " + peak.dtype, rate->count);
      }
    }
    if (peak.dense && peak.sparse && peak.sparse->count < peak.dense->count) {
      add("device {}: the sparse peak of {} is below the dense one; are they swapped?",
          cluster_.device.name, peak.dtype);
    }
  }

  void check_links() {
    std::int64_t inner = 1;
    for (const Link& link : cluster_.links) {
      check_link(link, inner);
      inner = link.reach;
    }
    if (problems_.empty() && inner != devices()) {
      add("{} of {} devices are joined; add a link with reach {}", inner, devices(), devices());
    }
  }

  void check_link(const Link& link, std::int64_t inner) {
    const auto& links = cluster_.links;
    if (link.level.empty()) {
      add("a link has no level name");
    }
    if (std::count_if(links.begin(), links.end(),
                      [&](const Link& other) { return other.level == link.level; }) > 1) {
      add("link level '{}' is given twice", link.level);
    }
    if (link.reach <= inner || link.reach % inner != 0) {
      add("link '{}': reach {} is not a larger multiple of {}, the reach of the level inside",
          link.level, link.reach, inner);
    }
    if (link.reach > devices()) {
      add("link '{}': reach {} is more than the {} devices", link.level, link.reach, devices());
    }
    const std::int64_t node = std::max(cluster_.devices_per_node, 1);
    if (link.reach > 0 && node % link.reach != 0 && link.reach % node != 0) {
      add("link '{}': reach {} joins parts of nodes of {} devices", link.level, link.reach, node);
    }
    check_time("link '" + link.level + "': alpha", link.alpha);
    check_time("link '" + link.level + "': beta", link.beta);
  }

  void check_time(const std::string& what, Seconds time) {
    trireme::check_time(problems_, what, time);
  }

  [[nodiscard]] std::int64_t devices() const {
    return std::int64_t{cluster_.nodes} * cluster_.devices_per_node;
  }

  const Cluster& cluster_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string to_text(FlopRate rate) {
  return to_text_si(rate.count, "FLOP/s");
}

std::string to_text(ByteRate rate) {
  return to_text_si(rate.count, "B/s");
}

const std::vector<std::string>& peak_types() {
  static const std::vector<std::string> types{"f64", "f64-tensor", "f32", "tf32", "bf16", "f16",
                                              "f8",  "f6",         "f4",  "i8",   "i4"};
  return types;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

std::string normal_peak_type(std::string_view name) {
  std::string lower = to_lower(name);
  if (lower.starts_with("fp")) {
    lower.erase(1, 1);
  } else if (lower.starts_with("int")) {
    lower.erase(1, 2);
  }
  return lower;
}

std::string_view to_text(Sparsity sparsity) {
  static constexpr auto kNames = enum_names<Sparsity>("dense", "structured");
  return kNames[sparsity];
}

std::optional<FlopRate> DeviceSpec::peak(std::string_view dtype, Sparsity sparsity) const {
  const std::string wanted = normal_peak_type(dtype);
  const std::vector<std::string>& types = peak_types();
  if (std::find(types.begin(), types.end(), wanted) == types.end()) {
    throw Error(ErrorKind::Usage,
                fmt::format("unknown number type '{}'; use {}", dtype, list_words(types, "or")));
  }
  const auto at = std::find_if(peaks.begin(), peaks.end(),
                               [&](const Peak& peak) { return peak.dtype == wanted; });
  if (at == peaks.end()) {
    return std::nullopt;
  }
  return sparsity == Sparsity::Dense ? at->dense : at->sparse;
}

const Link& Cluster::link_between(int rank_a, int rank_b) const {
  for (const int rank : {rank_a, rank_b}) {
    if (rank < 0 || rank >= devices()) {
      throw Error(ErrorKind::Usage,
                  fmt::format("cluster {} has ranks 0 to {}, not {}", name, devices() - 1, rank));
    }
  }
  if (rank_a == rank_b) {
    throw Error(ErrorKind::Usage,
                fmt::format("cluster {}: rank {} needs no link to itself", name, rank_a));
  }
  for (const Link& link : links) {
    if (link.reach > 0 && rank_a / link.reach == rank_b / link.reach) {
      return link;
    }
  }
  throw Error(ErrorKind::Usage,
              fmt::format("cluster {}: no link joins ranks {} and {}", name, rank_a, rank_b));
}

std::vector<std::string> problems(const Cluster& cluster) {
  std::vector<std::string> found = ClusterVerifier(cluster).run();
  if (cluster.efficiency) {
    for (const std::string& problem : problems(*cluster.efficiency)) {
      found.push_back("efficiency: " + problem);
    }
  }
  return found;
}

Efficiency efficiency_of(const Cluster& cluster) {
  return cluster.efficiency ? *cluster.efficiency : default_efficiency(cluster.device.name);
}

}  // namespace trireme
