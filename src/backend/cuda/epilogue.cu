// What follows a product where cuBLASLt's own epilogue cannot be used: in f32 and f64, and for rows that are not aligned.
#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

constexpr double kCubic = 0.044715;
constexpr double kRootOfTwoOverPi = 0.79788456080286535588;

template <class W>
__device__ W gelu_tanh(W x) {
  return tanh(static_cast<W>(kRootOfTwoOverPi) * (x + static_cast<W>(kCubic) * x * x * x));
}
template <class W>
__device__ W gelu(W x) {
  return static_cast<W>(0.5) * x * (1 + gelu_tanh(x));
}
template <class W>
__device__ W gelu_slope(W x) {
  const W t = gelu_tanh(x);
  const W inner = static_cast<W>(kRootOfTwoOverPi) * (1 + static_cast<W>(3 * kCubic) * x * x);
  return static_cast<W>(0.5) * (1 + t) + static_cast<W>(0.5) * x * (1 - t * t) * inner;
}

template <class T>
struct Apply {
  T* y;
  const T* bias;
  std::int64_t period;
  T* before;
  const T* slope_at;
  __device__ void operator()(std::int64_t i) const {
    Wide<T> value = load(y[i]);
    if (bias != nullptr) {
      value += load(bias[i % period]);
    }
    if (before != nullptr) {
      before[i] = narrow<T>(value);
      value = gelu(value);
    }
    if (slope_at != nullptr) {
      value *= gelu_slope(load(slope_at[i]));
    }
    y[i] = narrow<T>(value);
  }
};

}  // namespace

void enqueue_epilogue(DType dtype, std::byte* y, std::int64_t count, const Epilogue& epilogue,
                      cudaStream_t stream) {
  (void)for_float(dtype, [&]<class T>(T) -> std::optional<Launch> {
    enqueue_each(count,
                 Apply<T>{reinterpret_cast<T*>(y), reinterpret_cast<const T*>(epilogue.bias),
                          epilogue.period, reinterpret_cast<T*>(epilogue.before),
                          reinterpret_cast<const T*>(epilogue.slope_at)},
                 stream);
    return std::nullopt;
  });
}

}  // namespace trireme::cuda
