// The sizes of values as containers, spans and memory take them. Requires that they are not negative.
#pragma once

#include <cstddef>

#include "trireme/tensor.h"
#include "trireme/units.h"

namespace trireme {

[[nodiscard]] inline std::size_t container_size(Bytes bytes) {
  return static_cast<std::size_t>(bytes.count);
}

[[nodiscard]] inline std::size_t container_size(const Shape& shape) {
  return static_cast<std::size_t>(shape.element_count());
}

}  // namespace trireme
