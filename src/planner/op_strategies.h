// The strategies of one op or stored value, and what they cost without its neighbors. Any thread.
#pragma once

#include <vector>

#include "base/indexed_vector.h"
#include "planner/placement_costs.h"
#include "trireme/graph.h"
#include "trireme/op_strategy.h"

namespace trireme::planner {

/// The rates of a device.
struct DeviceRates {
  const DeviceSpec& device;
  Efficiency efficiency{};

  /// Seconds for FLOPs of matrix products in this type, or for moving bytes if that is longer. Throws Error(Usage) if the
  /// peak or the bandwidth is unknown.
  [[nodiscard]] double seconds(double products, DType dtype, double bytes) const;
};

/// Of an input or a parameter.
[[nodiscard]] std::vector<OpStrategy> strategies_of(const Value& value, const DeviceRates& rates,
                                                    const PlacementCosts& costs);
/// Of a node; `trained` says of each value whether it has a gradient.
[[nodiscard]] std::vector<OpStrategy> strategies_of(const Graph& graph, const Node& node,
                                                    const IndexedVector<ValueId, bool>& trained,
                                                    const DeviceRates& rates,
                                                    const PlacementCosts& costs);

}  // namespace trireme::planner
