// The sizes of values as containers take them.
#pragma once

#include <cstddef>

#include "trireme/tensor.h"
#include "trireme/units.h"

namespace trireme::train {

[[nodiscard]] inline std::size_t container_size(Bytes bytes) {
  return static_cast<std::size_t>(bytes.count);
}

[[nodiscard]] inline std::size_t container_size(const Shape& shape) {
  return static_cast<std::size_t>(shape.element_count());
}

}  // namespace trireme::train
