// The offset of an element by its number, for kernels over dimensions with arbitrary strides.
#pragma once

#include <cstdint>

namespace trireme::cuda {

inline constexpr int kMaxDims = 8;

/// Passed to kernels by value. The last dimension varies fastest.
struct Strides {
  int dims = 0;
  std::int64_t size[kMaxDims] = {};
  std::int64_t step[kMaxDims] = {};  ///< in elements

  void push(std::int64_t dim_size, std::int64_t dim_step) {
    size[dims] = dim_size;
    step[dims] = dim_step;
    ++dims;
  }
#ifdef __CUDACC__
  __device__ std::int64_t offset(std::int64_t number) const {
    std::int64_t at = 0;
    for (int d = dims - 1; d >= 0; --d) {
      at += number % size[d] * step[d];
      number /= size[d];
    }
    return at;
  }
#endif
};

}  // namespace trireme::cuda
