#include <cmath>

#include "trireme/energy.h"
#include "trireme/planner.h"

namespace trireme {
namespace {

/// All devices of a kind, or of a cluster.
struct Devices {
  double count = 0;
  const DeviceSpec& device;
};

std::vector<Devices> devices_of(const Cluster& cluster) {
  if (!cluster.is_mixed()) {
    return {{static_cast<double>(cluster.devices()), cluster.device}};
  }
  std::vector<Devices> all;
  for (const NodeKind& kind : cluster.kinds) {
    all.push_back({static_cast<double>(kind.nodes) * cluster.devices_per_node, kind.device});
  }
  return all;
}

}  // namespace

Bill bill_of(const Cluster& cluster, Seconds time) {
  constexpr double kHour = 3600;
  Bill bill{.time = time, .energy = Energy{}, .dollars = 0};
  for (const Devices& some : devices_of(cluster)) {
    bill.energy =
        bill.energy && some.device.power
            ? std::optional(Energy{bill.energy->joules +
                                   energy_of({some.count * some.device.power->watts}, time).joules})
            : std::nullopt;
    bill.dollars = bill.dollars && some.device.price
                       ? std::optional(*bill.dollars + some.count * time.count / kHour *
                                                           some.device.price->dollars_per_hour)
                       : std::nullopt;
  }
  return bill;
}

Bill training_bill(const TransformerCost& cost, const StepCost& step, double tokens) {
  const Workload& work = cost.workload();
  const double steps =
      std::ceil(tokens / (static_cast<double>(work.batch) * static_cast<double>(work.length)));
  return bill_of(cost.cluster(), {steps * step.seconds});
}

}  // namespace trireme
