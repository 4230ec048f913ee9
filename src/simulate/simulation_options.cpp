#include "trireme/simulation_options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/group_costs.h"
#include "trireme/kernel_rates.h"
#include "trireme/message.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme::simulate {
namespace {

bool lacks_rates(const DeviceSpec& device, const std::string& dtype) {
  return !device.peak(dtype) || !device.memory_bandwidth;
}

ClusterRates reached_rates(const Cluster& cluster, const std::string& dtype) {
  const Efficiency efficiency = efficiency_of(cluster);
  const KernelRates kernels(cluster.device, efficiency, dtype);
  ClusterRates rates{.compute = compute_by(kernels, {efficiency.launch.count / kKernelsOfBlock}),
                     .peak = {kernels.peak()},
                     .cluster = cluster,
                     .collective_start = {GroupCosts(cluster, efficiency).start()}};
  for (Link& link : rates.cluster.links) {
    const bool inside = link.reach <= cluster.devices_per_node;
    link.beta.count /= inside ? efficiency.node_links : efficiency.network_links;
  }
  return rates;
}

ClusterRates given_rates(const RateOptions& options, const Cluster& cluster,
                         const std::string& dtype) {
  ComputeRates rates{.flops = {options.flops}, .memory = {options.bandwidth}, .launch = {}};
  if (!options.launch.empty()) {
    rates.launch = parsed("--launch", options.launch, parse_seconds);
  }
  if (options.flops <= 0) {
    const ComputeRates peaks = peak_rates(cluster.device, dtype);
    rates.flops = peaks.flops;
    rates.memory = options.bandwidth > 0 ? rates.memory : peaks.memory;
  }
  const FlopRate peak = rates.flops;
  rates.flops.count *= options.efficiency > 0 ? options.efficiency : 1;
  return {.compute = compute_by(rates), .peak = peak, .cluster = cluster, .collective_start = {}};
}

}  // namespace

std::vector<StageWork> stages_of(const TaskOptions& options, const PipelineTable& table) {
  const double share = static_cast<double>(table.ranks) / table.stages;
  const auto time = [&](const char* option, const std::string& text) {
    return Seconds{parsed(option, text, parse_seconds).count * share};
  };
  const auto size = [&](const char* option, const std::string& text, double part) {
    const Bytes whole = parsed(option, text, parse_bytes);
    return Bytes{std::llround(static_cast<double>(whole.count) * part)};
  };
  StageWork work;
  work.forward = time("--forward", options.forward);
  work.backward_input = work.backward_weight = {time("--backward", options.backward).count / 2};
  work.update = time("--update", options.update);
  work.message = size("--message-bytes", options.message_bytes, 1);
  const int calls = std::max(1, static_cast<int>(std::lround(options.tensor_calls * share)));
  const Bytes reduced = size("--tensor-bytes", options.tensor_bytes, 1);
  if (reduced.count > 0 && options.tensor_calls > 0) {
    work.in_forward = {{.bytes = reduced, .count = calls}};
    work.in_backward_input = work.in_forward;
  }
  const Bytes gradients = size("--gradient-bytes", options.gradient_bytes, share);
  if (gradients.count > 0) {
    work.gradients = {{.bytes = gradients, .axis = "data"}};
  }
  work.gradient_buckets = options.buckets;
  return std::vector<StageWork>(table.stages, work);
}

TimeVariation variation_of(const VariationOptions& options) {
  TimeVariation variation;
  variation.jitter = parsed("--jitter", options.jitter, parse_jitter);
  const auto slow = parsed("--slow", options.slow, parse_count_and_factor);
  const auto transient = parsed("--transient", options.transient, parse_count_and_factor);
  variation.slow_workers = static_cast<int>(std::min(slow.count, 1e9));
  require(slow.count == variation.slow_workers,
          fmt::format("--slow: {:g} is not a number of workers", slow.count));
  variation.slow_factor = slow.factor;
  variation.transient_chance = transient.count;
  variation.transient_factor = transient.factor;
  variation.seed = options.seed;
  require_valid(variation);
  return variation;
}

ClusterRates rates_of(const RateOptions& options, const Cluster& cluster, const std::string& name,
                      const std::string& dtype) {
  try {
    return options.are_defaults() ? reached_rates(cluster, dtype)
                                  : given_rates(options, cluster, dtype);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Usage || !lacks_rates(cluster.device, dtype)) {
      throw;
    }
    throw Error(ErrorKind::Usage,
                fmt::format("--cluster {}: the {} peak or the memory bandwidth of {} is unknown; "
                            "give --flops",
                            name, dtype, cluster.device.name));
  }
}

}  // namespace trireme::simulate
