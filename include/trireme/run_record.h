// RunRecord: everything that a training run has written into its folder, as values; `trireme report` shows it. Callable
// from any thread, also while the run is in progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan.h"
#include "trireme/trace.h"
#include "trireme/train.h"

namespace trireme {

/// The environment of a run: the host of rank 0.
struct RunEnvironment {
  std::string version{};  ///< of Trireme
  std::string system{};   ///< "Linux 6.1.0 x86_64"
  int cores = 0;          ///< that the process may use
  std::string started{};  ///< or resumed: "2026-03-01 12:30:05 UTC"
};
/// The environment of this process.
[[nodiscard]] RunEnvironment find_environment();

/// A line of metrics.jsonl.
struct RecordedStep {
  StepReport report{};
  double units_per_second = 0;
  double mfu = 0;
  double hfu = 0;
};

/// A setting or a field of the plan, as text: {"batch", "16"}.
struct RecordedField {
  std::string name{};
  std::string value{};
};

struct RunRecord {
  std::string folder{};
  std::vector<RecordedField> settings{};
  Plan plan{};
  std::vector<RecordedField> plan_fields{};
  std::string unit = "tokens";  ///< what units_per_second counts
  std::vector<RecordedStep> steps{};
  // Absent if the run has not written it yet, or an older version did not write it.
  std::optional<RunFacts> facts{};
  std::optional<RunEnvironment> environment{};
  std::optional<RunSummary> summary{};
  std::optional<Trace> trace{};
  std::vector<std::string> problems{};  ///< files that cannot be read, and why

  /// The step that the trace shows; nullptr if there is none.
  [[nodiscard]] const RecordedStep* traced_step() const;
};

/// Reads the folder of a run. Skips missing and damaged files other than the settings. Throws Error(Usage) if the
/// folder does not contain a run.
[[nodiscard]] RunRecord read_run(const std::string& folder);

/// facts.json: facts known before the first step. parse_facts() reads it back; throws Error(Input) that begins with
/// `what`.
struct RecordedFacts {
  RunFacts facts{};
  RunEnvironment environment{};
};
[[nodiscard]] std::string to_text(const RecordedFacts& recorded);
[[nodiscard]] RecordedFacts parse_facts(const std::string& text, const std::string& what);

}  // namespace trireme
