// Options for distributing a training run over ranks, as entered by the user. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/plan.h"

namespace trireme {

struct PlanOptions {
  std::optional<int> ranks{};  ///< absent: the size of the mesh
  std::string mesh{};
  std::string file{};
  std::optional<int> microbatches{};  ///< none: 1
  std::string schedule = "1f1b";
  int chunks = 1;
  std::optional<int> zero{};  ///< none: 0
  bool sequence = false;
  std::string context = "gather";
  std::string compression = "none";

  /// --mesh auto: `trireme train` chooses the plan.
  [[nodiscard]] bool is_automatic() const;
  /// -n without any other of these options.
  [[nodiscard]] bool is_only_ranks() const;
  /// The part of an automatic plan that the options fix; its mesh is empty.
  [[nodiscard]] Plan fixed_part() const;

  /// Throws Error(Usage) that names the option, Error(Input) if the file is not a plan. With neither mesh nor file, all
  /// ranks are along data. Only a file sets recomputation here: --recompute belongs to TrainSettings, which a run
  /// stores.
  [[nodiscard]] Plan plan() const;

  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

/// Names of the pipeline schedules that plans can use: schedules that divide the batch.
[[nodiscard]] std::vector<std::string> plan_schedule_names();

/// Notes about options without effect: "--zero 3 has no effect: it shards along data, which the mesh does not have".
[[nodiscard]] std::vector<std::string> plan_notes(const Plan& plan);

}  // namespace trireme
