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
  double flops = 0;  ///< 0: the device's peak
  double bandwidth = 0;
  double efficiency = 1;
  std::string launch = "0s";
};
/// The rates of instructions: those given, else the peaks of the cluster's device, which `name` names in errors.
[[nodiscard]] ComputeRates rates_of(const RateOptions& options, const Cluster& cluster,
                                    const std::string& name, const std::string& dtype);

}  // namespace trireme::simulate
