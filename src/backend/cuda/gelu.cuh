// The sigmoid, SiLU and GELU (with tanh) of a value in a register, for kernels.
#pragma once

namespace trireme::cuda {

__device__ inline float exp_of(float x) {
  return __expf(x);
}
__device__ inline double exp_of(double x) {
  return exp(x);
}
__device__ inline float over(float a, float b) {
  return __fdividef(a, b);
}
__device__ inline double over(double a, double b) {
  return a / b;
}

/// For a large negative x the power is infinite, and the result 0.
template <class W>
__device__ W sigmoid(W x) {
  return over(W{1}, 1 + exp_of(-max(x, static_cast<W>(-80))));
}

template <class W>
__device__ W silu_slope(W x) {
  const W share = sigmoid(x);
  return share * (1 + x * (1 - share));
}

// (1 + tanh(u)) / 2 = sigmoid(2u), which is accurate near 0.
template <class W>
__device__ W gelu_share(W x) {
  return sigmoid(static_cast<W>(1.5957691216057308) * (x + static_cast<W>(0.044715) * x * x * x));
}

template <class W>
__device__ W gelu_slope(W x) {
  const W share = gelu_share(x);
  const W inner = static_cast<W>(0.7978845608028654) * (1 + static_cast<W>(3 * 0.044715) * x * x);
  return share + 2 * x * share * (1 - share) * inner;
}

}  // namespace trireme::cuda
