// Simulates one step of compiled programs on a cluster, instruction by instruction: a discrete-event simulation that ends
// with the trace that a run would write. Deterministic. Callable from any thread.
//
// Each rank has a compute stream, which runs its instructions in order, and communicates concurrently, as the runtime does: a
// communication op starts at its instruction and must be complete before the instruction `done_before`. See
// docs/simulator.md for the rules.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/collective.h"
#include "trireme/compute_times.h"
#include "trireme/op.h"
#include "trireme/program.h"
#include "trireme/program_set.h"
#include "trireme/shared_cores.h"
#include "trireme/time_variation.h"
#include "trireme/trace.h"
#include "trireme/units.h"

namespace trireme::simulate {

/// A collective of these ranks on a vector of this many bytes, whole on one side of the operation.
struct CollectiveCall {
  const Signature& op;
  Operation operation{};
  std::span<const int> members{};
  Bytes bytes{};
};

/// One host instead of the cluster's devices and links, with as many ranks as there are programs.
struct SimulatedHost {
  SharedCores cores{};
  /// How long communication takes if nothing else uses the cores.
  std::function<Seconds(const CollectiveCall&)> collective{};
  std::function<Seconds(Bytes)> message{};
  Seconds start{};  ///< what starting a communication op costs the rank itself
  /// Until a sleeping thread runs: before an op of a rank that has not communicated for a while, and after an op that the
  /// rank waits for.
  Seconds wake{};
};

struct ProgramSimulationOptions {
  ComputeTime compute{};
  std::optional<SimulatedHost> host{};  ///< replaces the cluster
  TimeVariation variation{};            ///< of each instruction; a slow rank is slow in all of them
  std::vector<Algorithm> among{};       ///< algorithms of collectives; empty: the fastest of all
  Seconds collective_start{};           ///< of each collective, before data moves
  bool overlap = true;                  ///< false: each communication op is waited for at once
  /// Ranks of a node share one network port: messages and collectives that leave a node take turns. Otherwise each rank
  /// has its own, as in the presets.
  bool shared_node_port = false;
  bool trace = true;
  /// The ranks that the trace shows; all if there are none.
  std::vector<int> traced{};
};

struct RankReport {
  Seconds compute{};
  Seconds exposed{};  ///< waiting for communication that all its ranks have started
  Seconds idle{};     ///< waiting for another rank to start it, or for the end of the step
  double flops = 0;
  double bytes_sent = 0;  ///< by the lower bounds of collectives, as a run counts them
};

struct SimulationReport {
  Seconds step{};
  /// The step if ranks that share cores start on them unfavorably: as a prediction reports it. Otherwise `step`.
  Seconds slowest{};
  std::vector<RankReport> ranks{};
  Seconds communication{};  ///< the busy time of all ranks' communication together
  Trace trace{};            ///< if requested

  /// The mean share of the step that ranks spend in a part.
  [[nodiscard]] double share(Seconds RankReport::*part) const;
};

/// The programs of all ranks, and each rank's groups (groups_of()). What a program's instructions take is computed once,
/// so ranks that share one cost little more than their communication. Throws Error(Usage) if the programs do not fit
/// together or are for more ranks than the cluster has.
[[nodiscard]] SimulationReport simulate_programs(const RankPrograms& programs,
                                                 std::span<const RankGroups> groups,
                                                 const Cluster& cluster,
                                                 const ProgramSimulationOptions& options);
/// The same with a program for each rank.
[[nodiscard]] SimulationReport simulate_programs(std::span<const Program> programs,
                                                 std::span<const RankGroups> groups,
                                                 const Cluster& cluster,
                                                 const ProgramSimulationOptions& options);

}  // namespace trireme::simulate
