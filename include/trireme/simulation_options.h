// A simulation as its user writes it: the work of stages, the rates of a device, how times vary. Values; any thread. What is
// wrong throws Error(Usage) that names the option.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/pipeline.h"
#include "trireme/pipeline_simulation.h"
#include "trireme/program_simulation.h"
#include "trireme/time_variation.h"

namespace trireme::simulate {

/// Of a rank's layers, for one micro-batch. With several stages per rank, each has its share.
struct TaskOptions {
  bool tasks = false;
  std::string forward = "1ms";
  std::string backward = "2ms";  ///< half for the input, half for the weights
  std::string update = "0s";
  std::string gradient_bytes = "0";
  std::string message_bytes = "0";
  std::string tensor_bytes = "0";
  int tensor_calls = 4;
  int buckets = 1;
};

/// The work of each stage of the table.
[[nodiscard]] std::vector<StageWork> stages_of(const TaskOptions& options,
                                               const PipelineTable& table);

struct VariationOptions {
  std::string jitter = "none";
  std::string slow = "0x1";
  std::string transient = "0x1";
  std::uint64_t seed = 1;
};
[[nodiscard]] TimeVariation variation_of(const VariationOptions& options);

struct RateOptions {
  double flops = 0;  ///< 0: the device's
  double bandwidth = 0;
  double efficiency = 0;  ///< share of the FLOP/s; 0: all of it
  std::string launch{};   ///< empty: none

  /// Whether none is given: kernels and links then have the rates of the cluster's efficiency, if its device is known.
  [[nodiscard]] bool are_defaults() const {
    return flops <= 0 && bandwidth <= 0 && efficiency <= 0 && launch.empty();
  }
};

/// How fast the devices of a cluster are.
struct ClusterRates {
  ComputeTime compute{};
  FlopRate peak{};             ///< of a device, for MFU
  Cluster cluster{};           ///< with links as fast as communication gets them
  Seconds collective_start{};  ///< as ProgramSimulationOptions
};

/// With default options, by efficiency_of(cluster): kernels by KernelRates, links at the share of their bandwidth that they
/// reach. Otherwise kernels run at the rates given, else at the peaks of the device, and links as the cluster has them.
/// Throws Error(Usage) with `name`, that of the cluster, if a rate is neither given nor known.
[[nodiscard]] ClusterRates rates_of(const RateOptions& options, const Cluster& cluster,
                                    const std::string& name, const std::string& dtype);

}  // namespace trireme::simulate
