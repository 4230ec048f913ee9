// Shared by the optimizers: the types of a parameter and its gradient, and the scalars of a step.
#pragma once

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {

/// The scalars that all elements share, read by each thread.
template <class W>
struct Rates {
  const W* rate;
  const W* scale;
  __device__ bool skips() const { return *scale == 0 || !isfinite(*scale); }
};

/// Calls f(T, G) for the types of a parameter and its gradient; nothing if the scalars are not in the wide type.
template <class F>
std::optional<Launch> for_parameter(const KernelRequest& request, F f) {
  return for_float(request.inputs[0].dtype, [&]<class T>(T p) -> std::optional<Launch> {
    const DType wide = std::is_same_v<T, double> ? DType::F64 : DType::F32;
    if (request.inputs.back().dtype != wide) {
      return std::nullopt;
    }
    if (request.inputs[1].dtype == request.inputs[0].dtype) {
      return f(p, p);
    }
    if constexpr (std::is_same_v<T, float>) {
      return for_float(request.inputs[1].dtype,
                       [&]<class G>(G g) -> std::optional<Launch> { return f(p, g); });
    } else if constexpr (sizeof(T) == 2) {
      return request.inputs[1].dtype == DType::F32 ? f(p, float{}) : std::nullopt;
    }
    return std::nullopt;
  });
}

}  // namespace trireme::cuda
