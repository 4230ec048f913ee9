// A training run as requested by the user, and the steps that complete the request: the settings of a resumed run, and
// the plan. One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm.h"
#include "trireme/plan_choice.h"
#include "trireme/plan_options.h"
#include "trireme/train.h"

namespace trireme {

struct RunRequest {
  RunOptions run{};  ///< without its plan
  /// The names of the settings that were given; a resumed run keeps its others.
  std::vector<std::string> given{};
  PlanOptions plan{};
  LaunchedRank launched{};  ///< this process, if another program starts the ranks
};

/// For a resumed run, loads its settings and applies the given ones. Throws Error(Usage) if there is no such run, or a
/// given setting cannot change or is wrong.
void complete_settings(RunRequest& request);

/// Whether to choose the plan automatically: with --mesh auto; with -n alone if the host's costs, `run.host`, are
/// known, because measuring them takes seconds. Never for ranks started by another program. Throws Error(Usage) if
/// --mesh auto is given with another --sync than allreduce.
[[nodiscard]] bool chooses_plan(const RunRequest& request);

/// Chooses the plan that is predicted to be fastest, on the given number of ranks or any that divides `cores`. Throws
/// as choose_plan().
[[nodiscard]] PlanChoice choose_plan(const RunRequest& request, int cores);

/// The plan if it is not chosen automatically: from the options, else from the resumed run, else all launched ranks
/// along data. Throws Error(Usage) if its size differs from the number of launched ranks.
[[nodiscard]] Plan requested_plan(const RunRequest& request);

}  // namespace trireme
