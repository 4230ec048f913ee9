// The output of a training run: a line updated in place on a terminal, occasional lines elsewhere, JSON for machines,
// and a summary.
#pragma once

#include <memory>
#include <string>

#include "trireme/train.h"

namespace trireme::cli {

class TrainDisplay {
 public:
  TrainDisplay() = default;
  virtual ~TrainDisplay() = default;
  TrainDisplay(const TrainDisplay&) = delete;
  TrainDisplay& operator=(const TrainDisplay&) = delete;
  /// A note about the choice of a plan, before the run starts.
  virtual void note(const std::string& text) = 0;
  virtual void begin(const RunFacts& facts) = 0;
  /// Called after every step.
  virtual void step(const RunFacts& facts, const StepReport& report) = 0;
  virtual void end(const RunFacts& facts, const RunSummary& summary) = 0;
};

struct DisplayOptions {
  bool json = false;
  std::string program = "trireme";  ///< the command that the user types to run this program
};

/// Chooses the display for standard output, which may be a terminal.
[[nodiscard]] std::unique_ptr<TrainDisplay> make_train_display(const DisplayOptions& options);

}  // namespace trireme::cli
