// A tensor as the rows of its last dimension.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/loops/elements.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

struct Rows {
  std::int64_t count = 0;
  std::int64_t length = 0;

  explicit Rows(const Shape& shape)
      : count(shape.dims().back() == 0 ? 0 : shape.element_count() / shape.dims().back()),
        length(shape.dims().back()) {}
  /// How many rows justify waking another thread.
  [[nodiscard]] std::int64_t grain() const {
    return 1 + kSerial / 4 / std::max<std::int64_t>(length, 1);
  }
};

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
