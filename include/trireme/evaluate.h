// The loss of a trained model on data, on one device or on the ranks of a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/generate.h"
#include "trireme/plan.h"
#include "trireme/train_data.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

struct EvaluateSummary {
  std::string model{};
  std::string data{};
  double loss = 0;             ///< mean cross-entropy of all tokens, in nats
  std::int64_t tokens = 0;     ///< predicted tokens
  std::int64_t sequences = 0;  ///< windows of the data
  Seconds time{};
};

struct EvaluateOptions {
  ModelSourceOptions source{};
  /// Files, folders or "-"; empty: the run's validation data. Uses all of it.
  std::vector<std::string> data{};
  /// Tokens per sequence; if absent, the run's, or the context up to 1024.
  std::optional<std::int64_t> length{};
  std::optional<std::int64_t> batch{};  ///< sequences at a time; if absent, the run's, or 8
  DataInput input{};
  Plan plan{};
  DeviceFactory make_device{};
  RankKind rank_kind = RankKind::Processes;
  /// Called on rank 0 with the number of sequences done and in total.
  std::function<void(std::int64_t done, std::int64_t all)> on_progress{};
  std::function<void(const EvaluateSummary&)> on_end{};  ///< called on rank 0
};

/// Everything wrong with the options, each with a fix. Opens no files.
[[nodiscard]] std::vector<std::string> problems(const EvaluateOptions& options);

/// Evaluates on the ranks of the plan's mesh; every window of the data counts once. Throws as generate().
void evaluate(const EvaluateOptions& options);

/// e to the loss: the effective number of tokens that the model chooses between.
[[nodiscard]] double perplexity(const EvaluateSummary& summary);
/// The line of `trireme evaluate --json`.
[[nodiscard]] std::string to_json(const EvaluateSummary& summary);

}  // namespace trireme
