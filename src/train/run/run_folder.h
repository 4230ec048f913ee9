// The folder of a training run: its name, and the files that grow with each step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/run/event_file.h"
#include "train/run/metrics_file.h"
#include "trireme/train.h"

namespace trireme::train {

/// Creates "runs/gpt-mini-001", with the first free number; no other run gets it. Throws Error(Usage) if it cannot be
/// created.
[[nodiscard]] std::string new_run_folder(const std::string& model);

/// Throws Error(Usage) if it cannot be created.
void make_run_folder(const std::string& folder);

/// Appends to metrics.jsonl and, if requested, to a TensorBoard event file.
class StepRecord {
 public:
  /// For a run that continues after `step`: see MetricsFile. Throws Error(System) if they cannot be written.
  StepRecord(const std::string& folder, std::int64_t step, bool tensorboard);

  /// Throws Error(System) if the step cannot be written.
  void add(const RunFacts& facts, const StepReport& report);
  void sync() { metrics_.sync(); }

 private:
  void add_event(const RunFacts& facts, const StepReport& report);

  MetricsFile metrics_;
  std::optional<EventFile> events_;
};

}  // namespace trireme::train
