// The error message of a training run whose loss, gradients or parameters became non-finite. Any thread.
#pragma once

#include <optional>
#include <string>

#include "train/step/trainer.h"

namespace trireme::train {

/// Where the non-finite values appeared, and what to resume from.
struct TrainFailure {
  StepResult result{};               ///< of the step that was not taken, or whose update overflowed
  std::optional<NonFinite> found{};  ///< where it started
  std::string run_folder{};
  std::string checkpoint{};  ///< the newest; "" if there is none
  bool at_once = false;      ///< it failed in the first step after that checkpoint
  std::string rate{};        ///< suggested instead, in the format of --rate
};

/// One line: the step, the node and the tensor, what is saved, and what to try.
[[nodiscard]] std::string failure_text(const TrainFailure& failure, const Program& program);

}  // namespace trireme::train
