// A host with round costs, as if `trireme probe` had measured it.
#pragma once

#include "trireme/host_costs.h"

namespace trireme::predict {

/// A kernel costs `seconds` a call, nothing else.
inline KernelCost per_call(const std::string& kernel, double seconds) {
  KernelCost cost;
  cost.kernel = kernel;
  cost.dtype = "f32";
  cost.call = {seconds};
  return cost;
}

/// One rank alone is twice as fast as one of many, and all threads of the host are twice as fast as one.
inline ComputeCosts compute_costs(int cores) {
  return {.source = "test",
          .settings = {{.ranks = 1, .threads = cores, .kernels = {per_call("*", 1e-3)}},
                       {.ranks = 1, .threads = 1, .kernels = {per_call("*", 1e-3)}},
                       {.ranks = cores, .threads = 1, .kernels = {per_call("*", 2e-3)}}}};
}

/// Communication costs nothing.
inline HostCosts free_communication(int cores) {
  return {.cores = cores,
          .messages = {{"shm", {0}, {0}, {}}},
          .combining = {{"f32", {0}}},
          .waits = {{2, {0}, {0}}},
          .copy = {{{1 << 20}, {0}, {0}}},
          .combine = {{{1 << 20}, {0}, {0}}},
          .compute = compute_costs(cores)};
}

}  // namespace trireme::predict
