// What follows a product where cuBLASLt's own epilogue cannot be used: in f32 and f64, and for rows that are not aligned.
#include "backend/cuda/elements.cuh"
#include "backend/cuda/gelu.cuh"

namespace trireme::cuda {
namespace {

template <class T>
struct ApplyEpilogue {
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
      value *= gelu_share(value);
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
    enqueue_each(
        count,
        ApplyEpilogue<T>{reinterpret_cast<T*>(y), reinterpret_cast<const T*>(epilogue.bias),
                         epilogue.period, reinterpret_cast<T*>(epilogue.before),
                         reinterpret_cast<const T*>(epilogue.slope_at)},
        stream);
    return std::nullopt;
  });
}

}  // namespace trireme::cuda
