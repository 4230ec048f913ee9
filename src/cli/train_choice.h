// The plan that `trireme train` chooses for this machine.
#pragma once

#include <optional>

#include "cli/train_display.h"
#include "cli/train_options.h"
#include "trireme/host_costs.h"

namespace trireme::cli {

/// Whether `trireme train` chooses the plan: with --mesh auto; with -n alone if `options.run.host` is known, because
/// measuring it takes seconds. Throws Error(Usage) if --mesh auto is given with another --sync than allreduce.
[[nodiscard]] bool chooses_plan(const TrainOptions& options);

/// The measured costs of this host, if known.
[[nodiscard]] std::optional<HostCosts> find_host_costs();
/// The known costs if they suffice to choose a plan; otherwise measures them quickly. Forks: call it before creating a
/// thread.
[[nodiscard]] HostCosts measured_host_costs(const std::optional<HostCosts>& known,
                                            TrainDisplay& display);

/// The plan that is predicted to be fastest, by `options.run.host`. Throws as choose_plan().
[[nodiscard]] Plan choose_plan_here(const TrainOptions& options, TrainDisplay& display);

}  // namespace trireme::cli
