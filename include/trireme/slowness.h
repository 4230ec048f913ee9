// Parses the slow workers and the strategies of a comparison under stragglers. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "trireme/sync.h"
#include "trireme/time_variation.h"

namespace trireme {

/// Which workers are slow, and when.
struct Slowness {
  std::string name;     ///< "permanent" or "transient"
  std::string meaning;  ///< "1 of 4 workers takes 5 times as long"
  simulate::TimeVariation variation{};
};

/// This many workers are permanently slow. Throws Error(Usage) if the count is out of range.
[[nodiscard]] Slowness slow_workers(const simulate::CountAndFactor& slow, int workers);
/// Every step of every worker is slow with this probability.
[[nodiscard]] Slowness slow_steps(const simulate::CountAndFactor& chance);

/// "allreduce,group=2,global=8,local=8": "global=" belongs to the group before it. Throws Error(Usage).
[[nodiscard]] std::vector<SyncSpec> parse_sync_list(const std::string& text);

}  // namespace trireme
