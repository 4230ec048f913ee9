// The folder of a training run: its name, and the files that grow with each step.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "train/run/event_file.h"
#include "trireme/train.h"

namespace trireme::train {

/// "runs/gpt-mini-001", with the first free number.
[[nodiscard]] std::string free_run_folder(const std::string& model);

/// Throws Error(Usage) if it cannot be created.
void make_run_folder(const std::string& folder);

/// Appends to metrics.jsonl and, if requested, to a TensorBoard event file.
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
