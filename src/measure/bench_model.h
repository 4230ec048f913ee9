// Predicted times of a benchmark's cases, from the measured costs of this host. Callable from any
// thread.
#pragma once

#include <optional>
#include <string>

#include "comm/measure.h"
#include "trireme/bench.h"
#include "trireme/units.h"

namespace trireme::measure {

class BenchModel {
 public:
  /// Requires plan.costs.
  explicit BenchModel(const BenchPlan& plan);

  /// For the chosen method ("direct", "ring", …); nothing if the costs do not cover it.
  [[nodiscard]] std::optional<Seconds> predict(const BenchCase& what,
                                               const std::string& chosen) const;
  /// The time that memory needs for the bytes that must cross it.
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
