// Parts of a tensor in host memory: what a device has of it, taken out of the whole and put back. Any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trireme/graph.h"
#include "trireme/placement.h"

namespace trireme {

/// What the device at these coordinates has of a value of this type. Where the value is cut along micro-batches,
/// the device has its part of each, one after the other.
struct Part {
  TensorType type{};
  Placement placement{};
  Axes axes{};
  int micro = -1;  ///< the axis of micro-batches; -1: there is none
  std::vector<int> coordinates{};
};

[[nodiscard]] Shape shape_of(const Part& part);
/// `whole` and the part have just the bytes of their shapes.
void take_part(const Part& part, std::span<const std::byte> whole, std::span<std::byte> to);
void put_part(const Part& part, std::span<const std::byte> from, std::span<std::byte> whole);

}  // namespace trireme
