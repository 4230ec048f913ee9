// What to say of a training run whose numbers are no numbers any more.
#pragma once

#include <optional>
#include <string>

#include "train/step/trainer.h"

namespace trireme::cli {

/// Where the bad numbers were seen, and what is left to go on from.
struct TrainFailure {
  train::StepResult result{};        ///< of the step that was not taken, or whose update overflowed
  std::optional<NonFinite> found{};  ///< where it began
  std::string run_folder{};
  std::string checkpoint{};  ///< the newest; "" if there is none
  bool at_once = false;      ///< in the first step behind it
  std::string rate{};        ///< to try instead, as --rate takes it
};

/// One line: the step, the node and the tensor, what is saved, and what to try.
[[nodiscard]] std::string failure_text(const TrainFailure& failure, const Program& program);

}  // namespace trireme::cli
