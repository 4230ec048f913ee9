// layer_norm, rms_norm and softmax: a warp for each row, which rows of up to a few thousand elements pass in registers,
// so that each is read once.
#include <array>

#include "backend/cuda/rows.cuh"

namespace trireme::cuda {
namespace {

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

/// Both norms of rows that consist of packs, at most kPacks of them in a lane; an rms_norm has neither means nor beta.
template <class T, class G, int kPacks>
struct PackedNorm {
  const T* x;
  const G* gamma;
  const G* beta;
  T* y;
  Wide<T>* means;
  Wide<T>* rstds;
  int length;
  Wide<T> epsilon;
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    constexpr int kCount = kPack<T>;
    const int packs = length / kCount;
    const auto* in = reinterpret_cast<const uint4*>(x + row * length);
    auto* out = reinterpret_cast<Pack<T>*>(y + row * length);
    uint4 held[kPacks];
    W sum = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (lane + j * kWarp < packs) {
        held[j] = in[lane + j * kWarp];
        const WidePack<T> own = unpacked<T>(held[j]);
        for (int k = 0; k < kCount; ++k) {
          sum += own.values[k];
        }
      }
    }
    const W mean = means == nullptr ? 0 : warp_sum(sum) / length;
    W square = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (lane + j * kWarp < packs) {
        const WidePack<T> own = unpacked<T>(held[j]);
        for (int k = 0; k < kCount; ++k) {
          const W off = own.values[k] - mean;
          square += off * off;
        }
      }
    }
    const W rstd = 1 / sqrt(warp_sum(square) / length + epsilon);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int i = lane + j * kWarp;
      if (i < packs) {
        const auto factors = reinterpret_cast<const Pack<G, kCount>*>(gamma)[i];
        Pack<G, kCount> shifts{};
        if (beta != nullptr) {
          shifts = reinterpret_cast<const Pack<G, kCount>*>(beta)[i];
        }
        const WidePack<T> own = unpacked<T>(held[j]);
        Pack<T> result;
        for (int k = 0; k < kCount; ++k) {
          const W shift = beta == nullptr ? 0 : static_cast<W>(load(shifts.values[k]));
          result.values[k] = narrow<T>(
              (own.values[k] - mean) * rstd * static_cast<W>(load(factors.values[k])) + shift);
        }
        out[i] = result;
      }
    }
    if (lane == 0) {
      rstds[row] = rstd;
      if (means != nullptr) {
        means[row] = mean;
      }
    }
  }
};

/// Like each_row_kernel(), but with few enough registers for enough concurrent warps to hide the latency of memory.
template <int kPacks, class F>
__global__ void __launch_bounds__(kThreads, kPacks <= 4 ? 4 : 2)
    packed_rows_kernel(std::int64_t rows, F f) {
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row < rows) {
    f(row, static_cast<int>(threadIdx.x % kWarp));
  }
}

template <int kPacks, class F>
void enqueue_packed_rows(std::int64_t rows, const F& f, cudaStream_t stream) {
  constexpr std::int64_t kRows = kThreads / kWarp;
  if (rows > 0) {
    packed_rows_kernel<kPacks>
        <<<static_cast<unsigned>((rows + kRows - 1) / kRows), kThreads, 0, stream>>>(rows, f);
    check(cudaGetLastError(), "launching a norm");
  }
}

/// Calls f with the least number of packs of a lane that hold a row; returns whether there is one.
template <class T, class F>
bool with_packs(std::int64_t length, F f) {
  constexpr std::int64_t kRow = kPack<T> * kWarp;
  if (length % kPack<T> != 0 || length > 8 * kRow) {
    return false;
  }
  length <= 4 * kRow ? f(std::integral_constant<int, 4>{}) : f(std::integral_constant<int, 8>{});
  return true;
}

template <class T, class G>
void enqueue_layer_norm(const Rows& rows, const LayerNorm<T, G>& norm, cudaStream_t stream) {
  const bool packed =
      with_packs<T>(rows.length, [&]<int kPacks>(std::integral_constant<int, kPacks>) {
        enqueue_packed_rows<kPacks>(
            rows.count,
            PackedNorm<T, G, kPacks>{norm.x, norm.gamma, norm.beta, norm.y, norm.means, norm.rstds,
                                     static_cast<int>(rows.length), norm.epsilon},
            stream);
      });
  if (!packed) {
    enqueue_each_row(rows.count, norm, stream);
  }
}

std::optional<Launch> prepare_layer_norm(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[0].shape);
  const double epsilon = signature_of(request).number("epsilon");
  return for_norm(
      request.inputs[0].dtype, request.inputs[1].dtype,
      [&]<class T, class G>(T, G) -> std::optional<Launch> {
        return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
          enqueue_layer_norm(
              rows,
              LayerNorm<T, G>{input<T>(m, 0), input<G>(m, 1), input<G>(m, 2), output<T>(m, 0),
                              output<Wide<T>>(m, 1), output<Wide<T>>(m, 2), rows.length,
                              static_cast<Wide<T>>(epsilon)},
              stream);
        }};
      });
}

template <class T, class G>
void enqueue_rms_norm(const Rows& rows, const RmsNorm<T, G>& norm, cudaStream_t stream) {
  const bool packed =
      with_packs<T>(rows.length, [&]<int kPacks>(std::integral_constant<int, kPacks>) {
        enqueue_packed_rows<kPacks>(
            rows.count,
            PackedNorm<T, G, kPacks>{norm.x, norm.gamma, nullptr, norm.y, nullptr, norm.rstds,
                                     static_cast<int>(rows.length), norm.epsilon},
            stream);
      });
  if (!packed) {
    enqueue_each_row(rows.count, norm, stream);
  }
}

std::optional<Launch> prepare_rms_norm(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[0].shape);
  const double epsilon = signature_of(request).number("epsilon");
  return for_norm(request.inputs[0].dtype, request.inputs[1].dtype,
                  [&]<class T, class G>(T, G) -> std::optional<Launch> {
                    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
                      enqueue_rms_norm(rows,
                                       RmsNorm<T, G>{input<T>(m, 0), input<G>(m, 1),
                                                     output<T>(m, 0), output<Wide<T>>(m, 1),
                                                     rows.length, static_cast<Wide<T>>(epsilon)},
                                       stream);
                    }};
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
                                    KernelRow{"rms_norm", prepare_rms_norm},
                                    KernelRow{"softmax", prepare_softmax},
                                    KernelRow{"softmax_backward", prepare_softmax_backward}};
  return kRows;
}

}  // namespace trireme::cuda
