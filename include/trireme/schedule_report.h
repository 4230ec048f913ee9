// Static analysis of one collective schedule: predicted time, traffic, problems, and the same as a predicted Trace.
// Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/collective.h"
#include "trireme/collective_cost.h"
#include "trireme/topology.h"
#include "trireme/trace.h"

namespace trireme::simulate {

/// How the schedule behaves on a network of links.
struct NetworkReport {
  Topology topology;
  LinkCosts costs;
  LinkTiming timing;
};

struct ScheduleReport {
  Schedule schedule;
  Payload payload;
  CostModel costs;
  Timing timing;
  Traffic traffic;
  Seconds lower_bound;
  std::optional<std::vector<std::string>> problems;  ///< nothing where it is too large to verify
  std::optional<PortConflict> port_conflict;         ///< likewise
  std::optional<Block> scratch_blocks;               ///< nothing where it is too large to verify
  std::string formula;                     ///< "" for a schedule that is not from the catalog
  std::optional<Seconds> formula_seconds;  ///< by the formula, for equal blocks and equal links
  std::string reason;                      ///< why this algorithm, if it was chosen
  std::optional<NetworkReport> network;
};

/// A schedule of the catalog.
struct ScheduleRecipe {
  Operation operation = Operation::Allreduce;
  Algorithm algorithm = Algorithm::Ring;
  BuildOptions build{};
};

/// α and β of each level of links, and γ.
[[nodiscard]] CostModel cluster_costs(const Cluster& cluster);

/// Times the schedule, counts its traffic and, up to a few million contributions, verifies it.
[[nodiscard]] ScheduleReport make_schedule_report(Schedule schedule, const Payload& payload,
                                                  const CostModel& costs);

/// The same for a schedule of the catalog, with its formula.
[[nodiscard]] ScheduleReport make_schedule_report(const ScheduleRecipe& recipe,
                                                  const Payload& payload, const CostModel& costs);

/// Times the schedule link by link; every link has the costs of the report's innermost level.
[[nodiscard]] NetworkReport make_network_report(const ScheduleReport& report, Topology topology,
                                                Switching switching);

/// "3", "0-3", "0,2,5", "1>4" (all-to-all: from 1 for 4): the blocks of a message, for display.
[[nodiscard]] std::string blocks_text(const Schedule& schedule, std::span<const BlockRun> runs);

/// The timed schedule as a trace. Each rank is a process with a track for its sends and one for its receives, each
/// message a span on both with an arrow between; ranks run in lock step, so a rank that is early shows a gap.
[[nodiscard]] Trace predicted_trace(const ScheduleReport& report);

}  // namespace trireme::simulate
