// How a training run is spread over ranks, as the options of `trireme train` say it.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "trireme/plan.h"

namespace trireme::cli {

struct PlanOptions {
  std::optional<int> ranks{};  ///< none: as many as the mesh has
  std::string mesh{};
  std::string file{};
  int microbatches = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  int zero = 0;
  bool sequence = false;
  std::string context = "gather";
  std::string compression = "none";

  /// Throws Error(Usage) that names the option, Error(Input) if the file is no plan. With neither mesh nor file:
  /// all ranks along data. What is recomputed a file alone says: the option is one of TrainSettings, for a run
  /// remembers it.
  [[nodiscard]] Plan plan() const;
};

/// The command has an option --recompute already, which a file excludes too.
void add_plan_options(CLI::App* command, PlanOptions& options);

}  // namespace trireme::cli
