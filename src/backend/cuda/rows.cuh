// Shared by kernels over rows of a tensor, such as norms.
#pragma once

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {

struct Rows {
  std::int64_t count = 0;
  std::int64_t length = 0;
};

inline Rows rows_of(const Shape& shape) {
  const std::int64_t length = shape.dims().back();
  return {length == 0 ? 0 : shape.element_count() / length, length};
}

/// Calls f with the types of x and gamma: the same, or x in 16 bits and gamma in f32.
template <class F>
std::optional<Launch> for_norm(DType x, DType gamma, F f) {
  return for_float(x, [&]<class T>(T element) -> std::optional<Launch> {
    if (x == gamma) {
      return f(element, element);
    }
    if constexpr (sizeof(T) == 2) {
      if (gamma == DType::F32) {
        return f(element, float{});
      }
    }
    return std::nullopt;
  });
}

}  // namespace trireme::cuda
