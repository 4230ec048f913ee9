// Makes a failing scenario smaller: fewer faults, ranks and hosts, a simpler workload.
#pragma once

#include <functional>

#include "comm/fault_fuzz/scenario.h"

namespace trireme::fault_fuzz {

/// Whether a scenario still fails in the same way. Faults depend on timing: it should try several times.
using StillFails = std::function<bool(const Scenario& candidate)>;

/// The smallest failing scenario that was found before `time_is_up`.
[[nodiscard]] Scenario minimize(Scenario failing, const StillFails& still_fails,
                                const std::function<bool()>& time_is_up);

}  // namespace trireme::fault_fuzz
