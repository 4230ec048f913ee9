#include <algorithm>
#include <array>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/host_probe.h"

namespace trireme::measure {
namespace {

/// "AMD EPYC 7B13", as reported by the system.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "cpu";
}

/// What large matrix products reach on one core while all cores compute.
std::vector<Peak> peaks_of(const HostCosts& costs) {
  std::vector<Peak> peaks;
  const ComputeSetting* setting = costs.compute ? costs.compute->find(costs.cores, 1) : nullptr;
  if (setting == nullptr) {
    return peaks;
  }
  for (const KernelCost& cost : setting->kernels) {
    if (cost.kernel == "einsum nn" && cost.flop.count > 0) {
      peaks.push_back({.dtype = cost.dtype, .dense = FlopRate{1 / cost.flop.count}, .sparse = {}});
    }
  }
  return peaks;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  const bool known = gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return known ? name.data() : "localhost";
}

Cluster make_host_cluster(const HostProbe& probe) {
  const HostCosts costs = host_costs(probe);
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  Cluster cluster{
      .name = host_name(),
      .devices_per_node = probe.cores,
      .device = {.name = processor_name(),
                 .memory = Bytes{pages * sysconf(_SC_PAGE_SIZE)},
                 .memory_bandwidth = ByteRate{probe.cores / costs.copy.back().together.count},
                 .peaks = peaks_of(costs),
                 .source = "measured by trireme probe"},
      .gamma = costs.combining.front().gamma,
      .host = costs,
      .notes = {fmt::format("Measured with {} ranks; a device is one core.", probe.cores)}};
  if (probe.cores > 1) {
    cluster.links.push_back({.level = "host",
                             .reach = probe.cores,
                             .alpha = costs.messages.front().alpha,
                             .beta = costs.messages.front().beta,
                             .source = "measured: messages through shared memory"});
  }
  return cluster;
}

}  // namespace trireme::measure
