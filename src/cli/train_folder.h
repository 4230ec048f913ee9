// The folder of a training run: its name, and the files in it that grow with the steps.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "cli/train_display.h"
#include "cli/train_options.h"
#include "train/run/event_file.h"

namespace trireme::cli {

/// "runs/gpt-mini-001", or the first number that is free.
[[nodiscard]] std::string free_run_folder(const std::string& model);

/// Throws Error(Usage) if it cannot be.
void make_run_folder(const std::string& folder);

/// metrics.jsonl and, if asked for, a file of events for TensorBoard. What is there already stays.
class StepRecord {
 public:
  /// Throws Error(System) if they cannot be written.
  StepRecord(const std::string& folder, const TrainOptions& options);

  void add(const TrainFacts& facts, const TrainMoment& moment);
  void flush() { metrics_.flush(); }

 private:
  void add_event(const TrainFacts& facts, const TrainMoment& moment);

  std::ofstream metrics_;
  std::optional<train::EventFile> events_;
};

}  // namespace trireme::cli
