// One rank of a run: runs the workload until all agree to end; after a CommError it shrinks its group and continues.
// Uses only the library's public headers.
#pragma once

#include "comm/fault_fuzz/journal.h"
#include "comm/fault_fuzz/scenario.h"
#include "trireme/comm.h"

namespace trireme::fault_fuzz {

struct RankPlace {
  JoinOptions join;
  std::string bind;
};

[[nodiscard]] WorldOptions world_options(const Scenario& scenario, const std::string& bind);

/// Joins, works, leaves. Whatever happens is in the journal; never throws.
void run_rank(const Scenario& scenario, const RankPlace& place, Journal& journal) noexcept;

}  // namespace trireme::fault_fuzz
