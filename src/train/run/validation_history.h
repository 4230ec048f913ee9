// The validation losses of a run: which was the lowest, and how long ago. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/train.h"

namespace trireme::train {

class ValidationHistory {
 public:
  /// Adds those in a metrics.jsonl, which has each step once.
  void load(const std::string& metrics_file);
  /// Returns whether this loss is lower than all before.
  bool add(std::int64_t step, double loss);

  [[nodiscard]] const std::optional<BestValidation>& best() const { return best_; }
  /// Validations since the lowest loss.
  [[nodiscard]] std::int64_t since_best() const { return since_best_; }

 private:
  std::optional<BestValidation> best_;
  std::int64_t since_best_ = 0;
};

}  // namespace trireme::train
