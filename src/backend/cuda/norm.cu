// layer_norm, rms_norm and softmax: a warp for each row, which rows of up to a few thousand elements pass in registers,
// so that each is read once. The gradients of gamma and beta are sums over rows.
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

template <class T, int kCount = kPack<T>>
struct WidePack {
  Wide<T> values[kCount];
};

/// The elements of a pack that is held in four registers. Of bf16 by integer operations: the compiler would hold its
/// elements in a register each.
template <class T>
__device__ inline WidePack<T> unpacked(const uint4& bits) {
  WidePack<T> wide;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const unsigned words[] = {bits.x, bits.y, bits.z, bits.w};
    for (int k = 0; k < 4; ++k) {
      wide.values[2 * k] = __uint_as_float(words[k] << 16);
      wide.values[2 * k + 1] = __uint_as_float(words[k] & 0xffff0000U);
    }
  } else {
    static_assert(sizeof(Pack<T>) == sizeof bits);
    Pack<T> pack;
    memcpy(&pack, &bits, sizeof bits);
    for (int k = 0; k < kPack<T>; ++k) {
      wide.values[k] = load(pack.values[k]);
    }
  }
  return wide;
}

/// One element, or a pack of them.
template <int kCount, class T>
__device__ inline WidePack<T, kCount> load_wide(const T* at) {
  if constexpr (kCount == kPack<T>) {
    return unpacked<T>(*reinterpret_cast<const uint4*>(at));
  } else {
    static_assert(kCount == 1);
    return {{load(*at)}};
  }
}

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

/// As each_row_kernel(), with so few registers that enough warps run beside each other to hide memory's latency.
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

/// Of both norms; an rms_norm has no means.
template <class T, class G>
struct NormBackward {
  const T* dy;
  const T* x;
  const G* gamma;
  const Wide<T>* means;
  const Wide<T>* rstds;
  const T* addend;  ///< nullptr: none
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
      const W more = addend == nullptr ? 0 : load(addend[row * length + i]);
      dx[row * length + i] = narrow<T>(more + rstds[row] * (g - mean_g - normal(row, i) * mean_gn));
    }
  }
};

/// The same for rows of packs.
template <class T, class G, int kPacks>
struct PackedNormBackward {
  NormBackward<T, G> norm;
  __device__ void operator()(std::int64_t row, int lane) const {
    using W = Wide<T>;
    constexpr int kCount = kPack<T>;
    const int packs = static_cast<int>(norm.length) / kCount;
    const std::int64_t at = row * norm.length;
    const auto* factors = reinterpret_cast<const Pack<G, kCount>*>(norm.gamma);
    const W mean = norm.means == nullptr ? 0 : norm.means[row];
    const W rstd = norm.rstds[row];
    uint4 dy[kPacks];
    uint4 x[kPacks];
    W sum_g = 0;
    W sum_gn = 0;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int i = lane + j * kWarp;
      if (i < packs) {
        dy[j] = reinterpret_cast<const uint4*>(norm.dy + at)[i];
        x[j] = reinterpret_cast<const uint4*>(norm.x + at)[i];
        const Pack<G, kCount> gamma = factors[i];
        const WidePack<T> dys = unpacked<T>(dy[j]);
        const WidePack<T> xs = unpacked<T>(x[j]);
        for (int k = 0; k < kCount; ++k) {
          const W g = dys.values[k] * static_cast<W>(load(gamma.values[k]));
          sum_g += g;
          sum_gn += g * (xs.values[k] - mean) * rstd;
        }
      }
    }
    const W mean_g = norm.means == nullptr ? 0 : warp_sum(sum_g) / norm.length;
    const W mean_gn = warp_sum(sum_gn) / norm.length;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int i = lane + j * kWarp;
      if (i < packs) {
        const Pack<G, kCount> gamma = factors[i];
        const WidePack<T> dys = unpacked<T>(dy[j]);
        const WidePack<T> xs = unpacked<T>(x[j]);
        Pack<T> more{};
        if (norm.addend != nullptr) {
          more = reinterpret_cast<const Pack<T>*>(norm.addend + at)[i];
        }
        Pack<T> result;
        for (int k = 0; k < kCount; ++k) {
          const W g = dys.values[k] * static_cast<W>(load(gamma.values[k]));
          const W normal = (xs.values[k] - mean) * rstd;
          const W other = norm.addend == nullptr ? 0 : load(more.values[k]);
          result.values[k] = narrow<T>(other + rstd * (g - mean_g - normal * mean_gn));
        }
        reinterpret_cast<Pack<T>*>(norm.dx + at)[i] = result;
      }
    }
  }
};

/// What an element adds to dgamma and, if there are two sums, to dbeta.
template <class T, class G, int kSums>
struct NormColumns {
  static constexpr int kCount = kPack<T>;
  NormBackward<T, G> norm;
  template <class W, int kColumns>
  __device__ void operator()(std::int64_t row, std::int64_t column,
                             W (&sums)[kSums][kColumns]) const {
    const std::int64_t at = row * norm.length + column;
    const WidePack<T, kColumns> dy = load_wide<kColumns>(norm.dy + at);
    const WidePack<T, kColumns> x = load_wide<kColumns>(norm.x + at);
    const Wide<T> mean = norm.means == nullptr ? 0 : norm.means[row];
    const Wide<T> rstd = norm.rstds[row];
    for (int i = 0; i < kColumns; ++i) {
      sums[0][i] += static_cast<W>(dy.values[i] * (x.values[i] - mean) * rstd);
      if constexpr (kSums == 2) {
        sums[1][i] += static_cast<W>(dy.values[i]);
      }
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

/// kSums: 2 for layer_norm, which has means and a beta; 1 for rms_norm. The columns come first: dx may replace dy.
/// Backwards whose result is added to another have that as their last operand.
template <class T, class G, int kSums, bool kAdds>
Launch norm_backward(const Rows& rows) {
  return {
      .enqueue =
          [=](const KernelMemory& m, cudaStream_t stream) {
            const bool has_means = kSums == 2;
            const NormBackward<T, G> norm{input<T>(m, 0),
                                          input<T>(m, 1),
                                          input<G>(m, 2),
                                          has_means ? input<Wide<T>>(m, 3) : nullptr,
                                          input<Wide<T>>(m, has_means ? 4 : 3),
                                          kAdds ? input<T>(m, has_means ? 5 : 4) : nullptr,
                                          output<T>(m, 0),
                                          rows.length};
            ColumnResults<G, kSums> into{};
            for (int k = 0; k < kSums; ++k) {
              into.at[k] = output<G>(m, static_cast<std::size_t>(1 + k));
            }
            enqueue_column_sums<G, kSums>(rows.count, rows.length, NormColumns<T, G, kSums>{norm},
                                          into, m.workspace, stream);
            const bool packed =
                with_packs<T>(rows.length, [&]<int kPacks>(std::integral_constant<int, kPacks>) {
                  enqueue_packed_rows<kPacks>(rows.count, PackedNormBackward<T, G, kPacks>{norm},
                                              stream);
                });
            if (!packed) {
              enqueue_each_row(rows.count, norm, stream);
            }
          },
      .workspace = column_workspace<Wide<G>>(rows.count, rows.length, kSums)};
}

template <int kSums, bool kAdds = false>
std::optional<Launch> prepare_norm_backward(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[1].shape);
  return for_norm(request.inputs[1].dtype, request.inputs[2].dtype,
                  [&]<class T, class G>(T, G) -> std::optional<Launch> {
                    return norm_backward<T, G, kSums, kAdds>(rows);
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
  static constexpr std::array kRows{
      KernelRow{"layer_norm", prepare_layer_norm},
      KernelRow{"layer_norm_backward", prepare_norm_backward<2>},
      KernelRow{"layer_norm_backward_add", prepare_norm_backward<2, true>},
      KernelRow{"rms_norm", prepare_rms_norm},
      KernelRow{"rms_norm_backward", prepare_norm_backward<1>},
      KernelRow{"rms_norm_backward_add", prepare_norm_backward<1, true>},
      KernelRow{"softmax", prepare_softmax},
      KernelRow{"softmax_backward", prepare_softmax_backward}};
  return kRows;
}

}  // namespace trireme::cuda
