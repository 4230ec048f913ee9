// A training run as its user asks for it, and what completes the request: the settings of the run that it resumes, and
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
  std::vector<std::string>
      given{};  ///< names of the settings given; a resumed run keeps its others
  PlanOptions plan{};
  LaunchedRank launched{};  ///< this process, if another program starts the ranks
};

/// For a resumed run, loads its settings and applies those given. Throws Error(Usage) if there is no such run, or a given
/// setting cannot change or is wrong.
void complete_settings(RunRequest& request);

/// Whether the plan is to be chosen: with --mesh auto; with -n alone if the costs of the host, `run.host`, are known,
/// because measuring them takes seconds. Not for ranks that another program has started. Throws Error(Usage) if --mesh
/// auto is given with another --sync than allreduce.
[[nodiscard]] bool chooses_plan(const RunRequest& request);

/// Chooses the plan that is predicted to be fastest, on the ranks given or on any number that divides `cores`. Throws as
/// choose_plan().
[[nodiscard]] PlanChoice choose_plan(const RunRequest& request, int cores);

/// The plan that is not chosen: that of the options, or else of the run that resumes, or else all launched ranks along
/// data. Throws Error(Usage) if it is not for as many ranks as were launched.
[[nodiscard]] Plan requested_plan(const RunRequest& request);

}  // namespace trireme
