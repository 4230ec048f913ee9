// What a benchmark's cases should take on this host, by the numbers of `trireme probe`.
#pragma once

#include <optional>
#include <string>

#include "cli/bench_plan.h"
#include "comm/direct_cost.h"
#include "trireme/cluster.h"
#include "trireme/collective_cost.h"
#include "trireme/units.h"

namespace trireme::cli {

class BenchModel {
 public:
  /// Throws Error(Usage) if the cluster is none that was probed.
  BenchModel(const Cluster& cluster, const BenchPlan& plan);

  /// By the method that was chosen ("direct", "ring", …); nothing where the numbers do not say.
  [[nodiscard]] std::optional<Seconds> predict(const BenchCase& what,
                                               const std::string& chosen) const;
  /// The bytes that must cross memory, over what the memory can do.
  [[nodiscard]] std::optional<Seconds> floor(const BenchCase& what) const;

 private:
  [[nodiscard]] comm::DirectQuery query(const BenchCase& what) const;

  Rank ranks_;
  DType dtype_;
  comm::Sight sight_;
  comm::DirectCosts direct_;
  std::optional<CostModel> messages_;
};

}  // namespace trireme::cli
