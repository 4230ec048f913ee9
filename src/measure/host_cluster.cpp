#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/host_probe.h"
#include "trireme/kernel_rates.h"

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

/// FLOP/s of a kernel over the peak; `otherwise` if it was not measured.
double share_of_peak(const ComputeSetting& setting, const Peak& peak, std::string_view kernel,
                     double otherwise) {
  const auto found = std::ranges::find_if(setting.kernels, [&](const KernelCost& cost) {
    return cost.kernel == kernel && cost.dtype == peak.dtype && cost.flop.count > 0;
  });
  return found == setting.kernels.end()
             ? otherwise
             : std::clamp(1 / (found->flop.count * peak.dense.value().count), 0.01, 1.0);
}

/// What calling the kernels of a block's forward pass costs.
Seconds launch_of(const ComputeSetting& setting) {
  const auto any = std::ranges::find(setting.kernels, "*", &KernelCost::kernel);
  return any == setting.kernels.end() ? Seconds{} : Seconds{kKernelsOfBlock * any->call.count};
}

/// Peaks and bandwidths are what was reached, so their shares are 1. Ranks compute and communicate on the same cores, so
/// next to nothing overlaps.
std::optional<Efficiency> efficiency_of(const HostCosts& costs, const std::vector<Peak>& peaks) {
  if (peaks.empty()) {
    return std::nullopt;
  }
  const ComputeSetting& setting = *costs.compute->find(costs.cores, 1);
  const double attention = share_of_peak(setting, peaks.front(), "attention", 0.5);
  return Efficiency{.matmul = 1,
                    .matmul8 = 1,
                    .matmul4 = 1,
                    .depth = 0,
                    .attention = attention,
                    .scores = attention,
                    .memory = 1,
                    .launch = launch_of(setting),
                    .node_links = 1,
                    .network_links = 1,
                    .overlap = 0.01,
                    .source = "measured by trireme probe"};
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  const bool known = gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return known ? name.data() : "localhost";
}

Cluster make_host_cluster(const HostProbe& probe) {
  const HostCosts costs = host_costs(probe);
  const std::vector<Peak> peaks = peaks_of(costs);
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  Cluster cluster{
      .name = host_name(),
      .devices_per_node = probe.cores,
      .device = {.name = processor_name(),
                 .memory = Bytes{pages * sysconf(_SC_PAGE_SIZE) / probe.cores},
                 .memory_bandwidth = ByteRate{1 / costs.copy.back().together.count},
                 .peaks = peaks,
                 .source = "measured by trireme probe"},
      .gamma = costs.combining.front().gamma,
      .host = costs,
      .efficiency = efficiency_of(costs, peaks),
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
