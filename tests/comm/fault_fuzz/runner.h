// Runs a scenario: starts the ranks as processes, injects the faults, and collects what happened.
#pragma once

#include "comm/fault_fuzz/leftovers.h"
#include "comm/fault_fuzz/record.h"
#include "comm/fault_fuzz/scenario.h"

namespace trireme::fault_fuzz {

/// Returns when the run is over and all its processes have ended. Call it while this process has one
/// thread. Throws std::runtime_error if the machine does not permit what the scenario needs.
[[nodiscard]] Record run(const Scenario& scenario, Leftovers::Files files);

}  // namespace trireme::fault_fuzz
