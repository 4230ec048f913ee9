// Simulated steps and synchronization strategies, as text and as JSON. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/text_style.h"
#include "trireme/program_simulation.h"
#include "trireme/synchronization.h"

namespace trireme::report {

/// One line per strategy.
[[nodiscard]] std::string strategies_text(const simulate::StrategyOptions& options,
                                          const std::vector<simulate::StrategyResult>& results,
                                          const Terminal& terminal);
[[nodiscard]] std::string strategies_json(const simulate::StrategyOptions& options,
                                          const std::vector<simulate::StrategyResult>& results);

/// The simulated step.
struct SimulatedStep {
  std::string model{};
  std::string plan{};  ///< "data=2,tensor=2"
  std::string cluster{};
  double model_flops = 0;  ///< of the step: what MFU counts
  double peak = 0;         ///< of all ranks together, FLOP/s
  int rows = 16;           ///< ranks to list at most
};

[[nodiscard]] std::string simulation_text(const SimulatedStep& step,
                                          const simulate::SimulationReport& report,
                                          const Terminal& terminal);
[[nodiscard]] std::string simulation_json(const SimulatedStep& step,
                                          const simulate::SimulationReport& report);

}  // namespace trireme::report
