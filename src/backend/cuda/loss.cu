// Cross-entropy over shards of classes: a block for each row. See graph/ops/cross_entropy.cpp for the formulas.
#include <array>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const T* logits, const I* targets, const T* tops, Wide<T>* sums, Wide<T>* picked,
                std::int64_t classes, std::int64_t first) {
  using W = Wide<T>;
  const std::int64_t row = blockIdx.x;
  const T* in = logits + row * classes;
  const W top = load(tops[row]);
  W sum = 0;
  for (std::int64_t v = threadIdx.x; v < classes; v += kThreads) {
    sum += exp(load(in[v]) - top);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    const auto target = static_cast<std::int64_t>(targets[row]) - first;
    sums[row] = sum;
    picked[row] = target >= 0 && target < classes ? load(in[target]) : 0;
  }
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    sums_backward_kernel(const Wide<T>* dsums, const Wide<T>* dpicked, const T* logits,
                         const I* targets, const T* tops, T* dlogits, std::int64_t classes,
                         std::int64_t first) {
  using W = Wide<T>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t at = row * classes;
  const W top = load(tops[row]);
  const W dsum = dsums[row];
  const auto target = static_cast<std::int64_t>(targets[row]) - first;
  for (std::int64_t v = threadIdx.x; v < classes; v += kThreads) {
    const W gradient = dsum * exp(load(logits[at + v]) - top) + (v == target ? dpicked[row] : 0);
    dlogits[at + v] = narrow<T>(gradient);
  }
}

/// Calls f(T, I) for the types of logits (or the largest of them) and targets. Statistics are in the wide type.
template <class F>
std::optional<Launch> for_logits(DType logits, DType targets, F f) {
  return for_float(logits, [&]<class T>(T element) -> std::optional<Launch> {
    return with_ids(targets, [&]<class I>(I id) { return f(element, id); });
  });
}

std::int64_t row_count(const TensorType& type) {
  return type.shape.element_count();
}

std::optional<Launch> prepare_sums(const KernelRequest& request) {
  const std::int64_t rows = row_count(request.inputs[1]);
  const std::int64_t classes = request.inputs[0].shape.dims().back();
  const std::int64_t first = signature_of(request).integer("first");
  return for_logits(request.inputs[0].dtype, request.inputs[1].dtype,
                    [&]<class T, class I>(T, I) -> std::optional<Launch> {
                      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
                        if (rows > 0) {
                          sums_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
                              input<T>(m, 0), input<I>(m, 1), input<T>(m, 2), output<Wide<T>>(m, 0),
                              output<Wide<T>>(m, 1), classes, first);
                          check(cudaGetLastError(), "launching cross_entropy_sums");
                        }
                      }};
                    });
}

std::optional<Launch> prepare_sums_backward(const KernelRequest& request) {
  const std::int64_t rows = row_count(request.inputs[3]);
  const std::int64_t classes = request.inputs[2].shape.dims().back();
  const std::int64_t first = signature_of(request).integer("first");
  return for_logits(
      request.inputs[2].dtype, request.inputs[3].dtype,
      [&]<class T, class I>(T, I) -> std::optional<Launch> {
        return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
          if (rows > 0) {
            sums_backward_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
                input<Wide<T>>(m, 0), input<Wide<T>>(m, 1), input<T>(m, 2), input<I>(m, 3),
                input<T>(m, 4), output<T>(m, 0), classes, first);
            check(cudaGetLastError(), "launching cross_entropy_sums_backward");
          }
        }};
      });
}

template <class T, class I>
struct Loss {
  using W = Wide<T>;
  const W* sums;
  const W* picked;
  const T* tops;
  const I* targets;
  W* losses;
  __device__ void operator()(std::int64_t row) const {
    const bool ignored = static_cast<std::int64_t>(targets[row]) == -1;
    losses[row] = ignored ? 0 : load(tops[row]) + log(sums[row]) - picked[row];
  }
};

template <class W, class I>
struct LossBackward {
  const W* dlosses;
  const W* sums;
  const I* targets;
  W* dsums;
  W* dpicked;
  __device__ void operator()(std::int64_t row) const {
    const W dloss = static_cast<std::int64_t>(targets[row]) == -1 ? 0 : dlosses[row];
    dsums[row] = dloss / sums[row];
    dpicked[row] = -dloss;
  }
};

bool is_wide(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64;
}

std::optional<Launch> prepare_loss(const KernelRequest& request) {
  const std::int64_t rows = row_count(request.inputs[3]);
  if (!is_wide(request.inputs[0].dtype)) {
    return std::nullopt;
  }
  return for_logits(request.inputs[2].dtype, request.inputs[3].dtype,
                    [&]<class T, class I>(T, I) -> std::optional<Launch> {
                      using W = Wide<T>;
                      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
                        enqueue_each(rows,
                                     Loss<T, I>{input<W>(m, 0), input<W>(m, 1), input<T>(m, 2),
                                                input<I>(m, 3), output<W>(m, 0)},
                                     stream);
                      }};
                    });
}

std::optional<Launch> prepare_loss_backward(const KernelRequest& request) {
  const std::int64_t rows = row_count(request.inputs[2]);
  if (!is_wide(request.inputs[0].dtype)) {
    return std::nullopt;
  }
  return for_logits(request.inputs[0].dtype, request.inputs[2].dtype,
                    [&]<class T, class I>(T, I) -> std::optional<Launch> {
                      using W = Wide<T>;
                      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
                        enqueue_each(
                            rows,
                            LossBackward<W, I>{input<W>(m, 0), input<W>(m, 1), input<I>(m, 2),
                                               output<W>(m, 0), output<W>(m, 1)},
                            stream);
                      }};
                    });
}

}  // namespace

std::span<const KernelRow> loss_kernels() {
  static constexpr std::array kRows{
      KernelRow{"cross_entropy", prepare_loss},
      KernelRow{"cross_entropy_backward", prepare_loss_backward},
      KernelRow{"cross_entropy_sums", prepare_sums},
      KernelRow{"cross_entropy_sums_backward", prepare_sums_backward}};
  return kRows;
}

}  // namespace trireme::cuda
