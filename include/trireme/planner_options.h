// A search for plans as its user writes it. Values; any thread. What is wrong throws Error(Usage) that names the option.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/cluster.h"
#include "trireme/cost.h"
#include "trireme/planner.h"

namespace trireme {

struct PlannerOptions {
  std::string model = "llama3-8b";
  std::string batch = "256";        ///< sequences, or "16Mtokens"
  std::int64_t length = 0;          ///< 0: the model's context
  std::string dtype{};              ///< empty: see plan_dtype()
  std::string attention = "fused";  ///< or "unfused": scores go through memory
  std::string recipe = "trireme";   ///< whose memory and gradients: see parse_recipe()
  bool overlap_tensor = false;
  std::string memory_limit{};  ///< "": most of a device's memory
  double watts = 0;            ///< of a device; 0: the cluster's
  double price = 0;            ///< of a device, in dollars per hour; 0: the cluster's
  // What to search. Empty, 0 or below: everything.
  std::string mesh{};
  std::string schedule{};
  std::string recompute{};
  int zero = -1;
  int microbatch = 0;
  std::string bucket{};
  std::string context{};
  bool wide = false;
  // How.
  std::string search = "exhaustive";  ///< or "mcmc"
  McmcOptions mcmc{};
  int keep = 10;  ///< how many plans to return
};

[[nodiscard]] SearchOptions make_search(const PlannerOptions& options);

/// The given type; otherwise "bf16", or "f32" on devices that have a peak for that only.
[[nodiscard]] std::string plan_dtype(const PlannerOptions& options, const Cluster& cluster);

/// The model and its batch on this cluster.
[[nodiscard]] TransformerCost make_cost(const PlannerOptions& options, Cluster cluster);

}  // namespace trireme
