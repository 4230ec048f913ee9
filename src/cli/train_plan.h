// How a training run is spread over ranks, as the options of `trireme train` say it.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "trireme/plan.h"

namespace trireme::cli {

struct PlanOptions {
  int ranks = 0;  ///< 0: as many as the mesh has
  std::string mesh{};
  std::string file{};
  int microbatches = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  int zero = 0;
  bool sequence = false;
  std::string context = "gather";

  /// Throws Error(Usage) that names the option, Error(Input) if the file is no plan. With neither mesh nor file:
  /// all ranks along data.
  [[nodiscard]] Plan plan() const;
};

void add_plan_options(CLI::App* command, PlanOptions& options);

}  // namespace trireme::cli
