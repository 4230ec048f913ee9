// Simulates one step of a pipeline table on all ranks of a mesh: the tasks of every data-parallel replica, their messages,
// the collectives inside tasks and the reduction of gradients. Works on tasks instead of instructions, so that a step of
// thousands of ranks takes a moment. Deterministic. Callable from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/collective.h"
#include "trireme/mesh.h"
#include "trireme/pipeline.h"
#include "trireme/program_simulation.h"
#include "trireme/time_variation.h"
#include "trireme/units.h"

namespace trireme::simulate {

/// Collectives along an axis of the mesh.
struct StageCollective {
  Operation operation = Operation::Allreduce;
  Bytes bytes{};  ///< of the whole vector, as in Selector::Query
  int count = 1;
  std::string axis = "tensor";
};

/// What a stage does for one micro-batch on each of its ranks.
struct StageWork {
  Seconds forward{};
  Seconds backward_input{};
  Seconds backward_weight{};
  Seconds update{};
  // Inside the tasks, not overlapped; a Backward has those of both halves.
  std::vector<StageCollective> in_forward{};
  std::vector<StageCollective> in_backward_input{};
  std::vector<StageCollective> in_backward_weight{};
  /// Before an Update, along `data` and over the copies of the model; overlapped with other tasks.
  std::vector<StageCollective> gradients{};
  /// The last backward yields the gradients in this many parts, evenly over its time; each is reduced on its own.
  int gradient_buckets = 1;
  std::vector<StageCollective> after_update{};  ///< such as the all-gather of ZeRO 1 and 2
  Bytes message{};  ///< to a neighboring stage, forward and back, from each rank
};

struct PipelineSimulationOptions {
  /// `pipe` has as many ranks as the table; `data` is the number of replicas. The ranks along all other axes run a task
  /// together: it takes as long as on the slowest of them.
  Mesh mesh{};
  TimeVariation variation{};       ///< of each task
  std::vector<Algorithm> among{};  ///< algorithms of collectives; empty: the fastest of all
  bool trace = false;
};

/// Throws Error(Usage) if the table, the mesh, the cluster and the stages do not fit together.
[[nodiscard]] SimulationReport simulate_pipeline(const PipelineTable& table,
                                                 std::span<const StageWork> stages,
                                                 const Cluster& cluster,
                                                 const PipelineSimulationOptions& options);

}  // namespace trireme::simulate
