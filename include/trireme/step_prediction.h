// Predicts a training step of ranks that share a measured host: kernels by their fitted costs, communication by the
// host's, all on its cores. Deterministic. Callable from any thread.
#pragma once

#include "trireme/cluster.h"
#include "trireme/host_costs.h"
#include "trireme/mesh.h"
#include "trireme/program_set.h"
#include "trireme/program_simulation.h"

namespace trireme::predict {

/// How the ranks run. They communicate through shared memory, as in a training run on one host.
struct HostRun {
  int threads = 0;  ///< of each rank; 0: its share of the cores, at least one
  simulate::TimeVariation variation{};
  bool overlap = true;
  bool trace = false;
};

/// The threads of each of `ranks` ranks that share the cores.
[[nodiscard]] int threads_per_rank(int cores, int ranks);

/// Simulates one step of the programs of the mesh's ranks. With more ranks than cores, times are the means of two
/// placements of ranks on cores (CorePlacement), either of which a run may have; `slowest` is the slower one. Throws
/// Error(Usage) if the host's costs lack compute costs: `trireme probe` measures them.
[[nodiscard]] simulate::SimulationReport predict_step(const RankPrograms& programs,
                                                      const Mesh& mesh, const HostCosts& costs,
                                                      const HostRun& run = {});

}  // namespace trireme::predict
