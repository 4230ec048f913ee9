// What `trireme probe` measures on this host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/line_fit.h"
#include "trireme/cluster.h"
#include "trireme/schedule.h"

namespace trireme::measure {

struct ProbeOptions {
  Rank ranks = 2;  ///< that work together: the cores
  bool quick = false;
};

/// Messages of one transport, by size.
struct MessageProbe {
  std::string transport{};
  std::vector<MessagePoint> points{};
  LineFit fit{};  ///< alpha, beta: of those that go one way
};

struct CombineProbe {
  std::string dtype{};
  Estimate gamma{};  ///< seconds per byte
};

struct WaitProbe {
  Rank ranks = 0;
  Estimate first{};  ///< seconds
  Estimate next{};
};

/// Seconds per byte touched.
struct MemoryProbe {
  Bytes footprint{};
  Estimate alone{};
  Estimate together{};
};

struct HostProbe {
  int cores = 1;
  std::vector<MessageProbe> messages{};
  std::vector<CombineProbe> combining{};
  std::vector<WaitProbe> waits{};
  std::vector<MemoryProbe> copy{};
  std::vector<MemoryProbe> combine{};
  Estimate stage{};         ///< seconds per byte
  Estimate fetch{};         ///< seconds per byte
  Estimate cached_stage{};  ///< the same, written through the caches
  Estimate cached_fetch{};
  MessageProbe peek{};
};

/// Makes processes, and threads last; all are gone when it returns. `say` is told what comes next.
[[nodiscard]] HostProbe probe_host(const ProbeOptions& options,
                                   const std::function<void(const std::string&)>& say);

/// As it stands in a cluster.
[[nodiscard]] HostCosts host_costs(const HostProbe& probe);

}  // namespace trireme::measure
