// layer_norm, rms_norm and softmax: a warp for each row. The gradients of gamma and beta are sums over rows.
#include <array>

#include "backend/cuda/column_sums.cuh"

namespace trireme::cuda {
namespace {

struct Rows {
  std::int64_t count = 0;
  std::int64_t length = 0;
};

Rows rows_of(const Shape& shape) {
  const std::int64_t length = shape.dims().back();
  return {length == 0 ? 0 : shape.element_count() / length, length};
}

/// The sum of f(i) over a row, in all lanes.
template <class W, class F>
__device__ W row_sum(std::int64_t length, int lane, F f) {
  W sum = 0;
  for (std::int64_t i = lane; i < length; i += kWarp) {
    sum += f(i);
  }
  return warp_sum(sum);
}

template <class T, class G>
struct LayerNorm {
  const T* x;
  const G* gamma;
  const G* beta;
  T* y;
  Wide<T>* means;
  Wide<T>* rstds;
  std::int64_t length;
  Wide<T> epsilon;
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    const T* in = x + row * length;
    const W mean = row_sum<W>(length, lane, [&](std::int64_t i) { return load(in[i]); }) / length;
    const W variance = row_sum<W>(length, lane,
                                  [&](std::int64_t i) {
                                    const W off = load(in[i]) - mean;
                                    return off * off;
                                  }) /
                       length;
    const W rstd = 1 / sqrt(variance + epsilon);
    for (std::int64_t i = lane; i < length; i += kWarp) {
      const W normal = (load(in[i]) - mean) * rstd;
      y[row * length + i] =
          narrow<T>(normal * static_cast<W>(load(gamma[i])) + static_cast<W>(load(beta[i])));
    }
    if (lane == 0) {
      means[row] = mean;
      rstds[row] = rstd;
    }
  }
};

template <class T, class G>
struct RmsNorm {
  const T* x;
  const G* gamma;
  T* y;
  Wide<T>* rstds;
  std::int64_t length;
  Wide<T> epsilon;
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    const T* in = x + row * length;
    const W square = row_sum<W>(length, lane,
                                [&](std::int64_t i) {
                                  const W value = load(in[i]);
                                  return value * value;
                                }) /
                     length;
    const W rstd = 1 / sqrt(square + epsilon);
    for (std::int64_t i = lane; i < length; i += kWarp) {
      y[row * length + i] = narrow<T>(load(in[i]) * rstd * static_cast<W>(load(gamma[i])));
    }
    if (lane == 0) {
      rstds[row] = rstd;
    }
  }
};

/// Of both norms; an rms_norm has no means.
template <class T, class G>
struct NormBackward {
  const T* dy;
  const T* x;
  const G* gamma;
  const Wide<T>* means;
  const Wide<T>* rstds;
  T* dx;
  std::int64_t length;

  __device__ Wide<T> normal(std::int64_t row, std::int64_t i) const {
    const Wide<T> mean = means == nullptr ? 0 : means[row];
    return (load(x[row * length + i]) - mean) * rstds[row];
  }
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    W sum_g = 0;
    W sum_gn = 0;
    for (std::int64_t i = lane; i < length; i += kWarp) {
      const W g = load(dy[row * length + i]) * static_cast<W>(load(gamma[i]));
      sum_g += g;
      sum_gn += g * normal(row, i);
    }
    const W mean_g = means == nullptr ? 0 : warp_sum(sum_g) / length;
    const W mean_gn = warp_sum(sum_gn) / length;
    for (std::int64_t i = lane; i < length; i += kWarp) {
      const W g = load(dy[row * length + i]) * static_cast<W>(load(gamma[i]));
      dx[row * length + i] = narrow<T>(rstds[row] * (g - mean_g - normal(row, i) * mean_gn));
    }
  }
};

/// What an element adds to dgamma and, if there are two sums, to dbeta.
template <class T, class G, int kSums>
struct NormColumns {
  NormBackward<T, G> norm;
  template <class W>
  __device__ void operator()(std::int64_t row, std::int64_t column, W (&sums)[kSums]) const {
    const Wide<T> dy = load(norm.dy[row * norm.length + column]);
    sums[0] += static_cast<W>(dy * norm.normal(row, column));
    if constexpr (kSums == 2) {
      sums[1] += static_cast<W>(dy);
    }
  }
};

/// Calls f with the types of x and gamma: the same, or gamma in f32 beside x in 16 bits.
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

std::optional<Launch> prepare_layer_norm(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[0].shape);
  const double epsilon = signature_of(request).number("epsilon");
  return for_norm(request.inputs[0].dtype, request.inputs[1].dtype,
                  [&]<class T, class G>(T, G) -> std::optional<Launch> {
                    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
                      enqueue_each_row(rows.count,
                                       LayerNorm<T, G>{input<T>(m, 0), input<G>(m, 1),
                                                       input<G>(m, 2), output<T>(m, 0),
                                                       output<Wide<T>>(m, 1), output<Wide<T>>(m, 2),
                                                       rows.length, static_cast<Wide<T>>(epsilon)},
                                       stream);
                    }};
                  });
}

std::optional<Launch> prepare_rms_norm(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[0].shape);
  const double epsilon = signature_of(request).number("epsilon");
  return for_norm(request.inputs[0].dtype, request.inputs[1].dtype,
                  [&]<class T, class G>(T, G) -> std::optional<Launch> {
                    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
                      enqueue_each_row(rows.count,
                                       RmsNorm<T, G>{input<T>(m, 0), input<G>(m, 1),
                                                     output<T>(m, 0), output<Wide<T>>(m, 1),
                                                     rows.length, static_cast<Wide<T>>(epsilon)},
                                       stream);
                    }};
                  });
}

/// kSums: 2 for layer_norm, which has means and a beta; 1 for rms_norm. The columns come first: dx may replace dy.
template <class T, class G, int kSums>
Launch norm_backward(const Rows& rows) {
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                const bool has_means = kSums == 2;
                const NormBackward<T, G> norm{input<T>(m, 0),
                                              input<T>(m, 1),
                                              input<G>(m, 2),
                                              has_means ? input<Wide<T>>(m, 3) : nullptr,
                                              input<Wide<T>>(m, has_means ? 4 : 3),
                                              output<T>(m, 0),
                                              rows.length};
                SumChunks<Wide<G>, G, kSums> into{};
                for (int k = 0; k < kSums; ++k) {
                  into.results[k] = output<G>(m, static_cast<std::size_t>(1 + k));
                }
                enqueue_column_sums<G, kSums>(rows.count, rows.length,
                                              NormColumns<T, G, kSums>{norm}, into, m.workspace,
                                              stream);
                enqueue_each_row(rows.count, norm, stream);
              },
          .workspace = column_workspace<Wide<G>>(rows.count, rows.length, kSums)};
}

template <int kSums>
std::optional<Launch> prepare_norm_backward(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[1].shape);
  return for_norm(request.inputs[1].dtype, request.inputs[2].dtype,
                  [&]<class T, class G>(T, G) -> std::optional<Launch> {
                    return norm_backward<T, G, kSums>(rows);
                  });
}

template <class T>
struct Softmax {
  const T* x;
  T* y;
  std::int64_t length;
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    const T* in = x + row * length;
    W top = -INFINITY;
    for (std::int64_t i = lane; i < length; i += kWarp) {
      top = max(top, load(in[i]));
    }
    top = warp_max(top);
    const W sum = row_sum<W>(length, lane, [&](std::int64_t i) { return exp(load(in[i]) - top); });
    for (std::int64_t i = lane; i < length; i += kWarp) {
      y[row * length + i] = narrow<T>(exp(load(in[i]) - top) / sum);
    }
  }
};

template <class T>
struct SoftmaxBackward {
  const T* dy;
  const T* y;
  T* dx;
  std::int64_t length;
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    const std::int64_t at = row * length;
    const W sum = row_sum<W>(length, lane,
                             [&](std::int64_t i) { return load(dy[at + i]) * load(y[at + i]); });
    for (std::int64_t i = lane; i < length; i += kWarp) {
      dx[at + i] = narrow<T>(load(y[at + i]) * (load(dy[at + i]) - sum));
    }
  }
};

std::optional<Launch> prepare_softmax(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each_row(rows.count, Softmax<T>{input<T>(m, 0), output<T>(m, 0), rows.length},
                       stream);
    }};
  });
}

std::optional<Launch> prepare_softmax_backward(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      enqueue_each_row(
          rows.count,
          SoftmaxBackward<T>{input<T>(m, 0), input<T>(m, 1), output<T>(m, 0), rows.length}, stream);
    }};
  });
}

}  // namespace

std::span<const KernelRow> norm_kernels() {
  static constexpr std::array kRows{KernelRow{"layer_norm", prepare_layer_norm},
                                    KernelRow{"layer_norm_backward", prepare_norm_backward<2>},
                                    KernelRow{"rms_norm", prepare_rms_norm},
                                    KernelRow{"rms_norm_backward", prepare_norm_backward<1>},
                                    KernelRow{"softmax", prepare_softmax},
                                    KernelRow{"softmax_backward", prepare_softmax_backward}};
  return kRows;
}

}  // namespace trireme::cuda
