// Shards of a tensor in host memory: extracts a device's shard from the full tensor and writes it back. Callable from
// any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trireme/graph.h"
#include "trireme/placement.h"

namespace trireme {

/// The shard of a value of this type on the device at these coordinates. If the value is split into micro-batches, the
/// device has its shard of each, in order.
struct Part {
  TensorType type{};
  Placement placement{};
  Axes axes{};
  int micro = -1;  ///< the axis of micro-batches; -1: none
  std::vector<int> coordinates{};
};

[[nodiscard]] Shape shape_of(const Part& part);
/// The spans must have exactly the sizes of their shapes.
void take_part(const Part& part, std::span<const std::byte> whole, std::span<std::byte> to);
void put_part(const Part& part, std::span<const std::byte> from, std::span<std::byte> whole);

}  // namespace trireme
