// Predicted times of a benchmark's cases, from the measured costs of this host. Any thread.
#pragma once

#include <optional>
#include <string>

#include "comm/measure.h"
#include "measure/bench_plan.h"
#include "trireme/units.h"

namespace trireme::measure {

class BenchModel {
 public:
  /// Requires plan.costs.
  explicit BenchModel(const BenchPlan& plan);

  /// By the method that was chosen ("direct", "ring", …); nothing where the costs do not cover it.
  [[nodiscard]] std::optional<Seconds> predict(const BenchCase& what,
                                               const std::string& chosen) const;
  /// The time that the memory takes for the bytes that must cross it.
  [[nodiscard]] std::optional<Seconds> floor(const BenchCase& what) const;

 private:
  [[nodiscard]] Bytes bytes_of(const BenchCase& what) const;

  Rank ranks_;
  DType dtype_;
  comm::Sight sight_;
  HostCosts costs_;
  comm::GroupModel model_;
};

}  // namespace trireme::measure
