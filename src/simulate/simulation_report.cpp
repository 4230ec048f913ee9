#include "trireme/program_simulation.h"

namespace trireme::simulate {

double SimulationReport::share(Seconds RankReport::*part) const {
  double sum = 0;
  for (const RankReport& rank : ranks) {
    sum += (rank.*part).count;
  }
  return step.count > 0 ? sum / (step.count * static_cast<double>(ranks.size())) : 0;
}

SimulationReport simulate_programs(std::span<const Program> programs,
                                   std::span<const RankGroups> groups, const Cluster& cluster,
                                   const ProgramSimulationOptions& options) {
  return simulate_programs(RankPrograms::one_each(programs), groups, cluster, options);
}

}  // namespace trireme::simulate
