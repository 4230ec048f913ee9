// The folder of a training run: its name, and the files in it that grow with the steps.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "train/run/event_file.h"
#include "trireme/train.h"

namespace trireme::train {

/// "runs/gpt-mini-001", or the first number that is free.
[[nodiscard]] std::string free_run_folder(const std::string& model);

/// Throws Error(Usage) if it cannot be made.
void make_run_folder(const std::string& folder);

/// Appends to metrics.jsonl and, if asked for, to an event file for TensorBoard.
class StepRecord {
 public:
  /// Throws Error(System) if they cannot be written.
  StepRecord(const std::string& folder, bool tensorboard);

  void add(const RunFacts& facts, const StepReport& report);
  void flush() { metrics_.flush(); }

 private:
  void add_event(const RunFacts& facts, const StepReport& report);

  std::ofstream metrics_;
  std::optional<EventFile> events_;
};

}  // namespace trireme::train
