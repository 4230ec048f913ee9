// Measures the cost of messages, waiting, copying and combining on this host, and describes the host as a Cluster.
//
// Plain values; all functions may be called from any thread, but probe_host() forks, so call it before creating one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/host_costs.h"
#include "trireme/schedule.h"
#include "trireme/units.h"

namespace trireme::measure {

/// A number and its 95 % confidence interval.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// y = intercept + slope * x.
struct LineFit {
  Estimate intercept;
  Estimate slope;
};

struct ProbeOptions {
  Rank ranks = 2;  ///< ranks that run together: one per core
  bool quick = false;
};

/// Messages of one transport, by size.
struct MessageProbe {
  std::string transport{};
  std::vector<MessagePoint> points{};
  LineFit fit{};  ///< alpha, beta: of one-way messages
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

/// Seconds per byte accessed.
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
  std::optional<ComputeCosts> compute{};  ///< by probe_compute(), a separate measurement
};

/// Starts processes, and threads last; all have ended when it returns. Calls `progress` with the next measurement.
[[nodiscard]] HostProbe probe_host(const ProbeOptions& options,
                                   const std::function<void(const std::string&)>& progress);

/// The fitted costs, as a cluster holds them.
[[nodiscard]] HostCosts host_costs(const HostProbe& probe);

/// The measured host as a cluster of one node: a device is one core.
[[nodiscard]] Cluster make_host_cluster(const HostProbe& probe);

/// "localhost" if the system does not know it.
[[nodiscard]] std::string host_name();

}  // namespace trireme::measure
