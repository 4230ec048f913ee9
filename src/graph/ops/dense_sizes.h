// Sizes for the loops of reference implementations. A row is along the last dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trireme/op.h"

namespace trireme::ops {

[[nodiscard]] inline std::size_t size_of_dim(const Dense& x, int dimension) {
  return static_cast<std::size_t>(x.shape.dim(dimension));
}

/// Requires at least one dimension.
[[nodiscard]] inline std::size_t row_length(const Dense& x) {
  return static_cast<std::size_t>(x.shape.dims().back());
}

/// The shape with rows of another length.
[[nodiscard]] inline Shape with_row_length(const Shape& shape, std::int64_t length) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.back() = length;
  return Shape(std::move(dims));
}

}  // namespace trireme::ops
