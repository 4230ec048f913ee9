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
  std::int64_t count = 1;            ///< of elements

  void push(std::int64_t dim_size, std::int64_t dim_step) {
    size[dims] = dim_size;
    step[dims] = dim_step;
    ++dims;
    count *= dim_size;
  }
#ifdef __CUDACC__
  /// Divides in 32 bits where that is enough: several times as fast.
  __device__ std::int64_t offset(std::int64_t number) const {
    return count <= 0xffffffff ? offset_by<std::uint32_t>(number) : offset_by<std::int64_t>(number);
  }

 private:
  template <class I>
  __device__ std::int64_t offset_by(std::int64_t number) const {
    auto rest = static_cast<I>(number);
    std::int64_t at = 0;
    for (int d = dims - 1; d >= 0; --d) {
      const auto dim = static_cast<I>(size[d]);
      at += static_cast<std::int64_t>(rest % dim) * step[d];
      rest /= dim;
    }
    return at;
  }
#endif
};

}  // namespace trireme::cuda
