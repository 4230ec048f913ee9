// Gradients of layer_norm and rms_norm, in one pass. A block takes several rows at a time, a pack of each in a thread,
// and strides over all rows, so a thread always has the same columns and accumulates their shares of dgamma and dbeta in
// registers. A second launch adds the sums of the blocks. Rows that do not consist of packs, or are too long for a block,
// take two passes.
#include <array>

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/rows.cuh"

namespace trireme::cuda {
namespace {

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

/// Sums of some values over a block of at most kMost threads, in all of its threads. Calls in turn alternate between two
/// turns: then a barrier for each is enough.
template <int kMost, class W, int kCount>
__device__ void sum_over_block(W (&values)[kCount], int turn) {
  struct alignas(16) Part {
    W values[kCount];
  };
  __shared__ Part parts[2][kMost / kWarp];
  Part own;
  for (int k = 0; k < kCount; ++k) {
    own.values[k] = warp_sum(values[k]);
    values[k] = 0;
  }
  if (threadIdx.x % kWarp == 0) {
    parts[turn][threadIdx.x / kWarp] = own;
  }
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
    const Part part = parts[turn][warp];
    for (int k = 0; k < kCount; ++k) {
      values[k] += part.values[k];
    }
  }
}

/// A thread's pack of some rows; zeros beyond the last row and column.
template <class T, int kRows>
struct HeldRows {
  uint4 dy[kRows];
  uint4 x[kRows];
  uint4 addend[kRows];
  Wide<T> mean[kRows];
  Wide<T> rstd[kRows];
};

template <int kRows, class T, class G>
__device__ HeldRows<T, kRows> hold_rows(const NormBackward<T, G>& norm, std::int64_t first,
                                        std::int64_t rows, int column) {
  HeldRows<T, kRows> held{};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t row = first + r;
    if (row < rows && column < norm.length) {
      const std::int64_t at = row * norm.length + column;
      held.dy[r] = load_raw<kPack<T>>(norm.dy + at);
      held.x[r] = load_raw<kPack<T>>(norm.x + at);
      if (norm.addend != nullptr) {
        held.addend[r] = load_raw<kPack<T>>(norm.addend + at);
      }
      held.mean[r] = norm.means == nullptr ? 0 : norm.means[row];
      held.rstd[r] = norm.rstds[row];
    }
  }
  return held;
}

/// A thread's shares of dgamma and, if there are two sums, of dbeta.
template <class T, int kSums>
struct ColumnShares {
  Wide<T> sums[kSums][kPack<T>];
};

/// Adds a thread's part of a row to the row's sums of g = dy gamma times the normalized x and, if there are two, of g.
template <class T, int kRows, int kSums>
__device__ void add_row(const HeldRows<T, kRows>& held, int r, const Wide<T> (&gamma)[kPack<T>],
                        ColumnShares<T, kSums>& shares, Wide<T> (&sums)[kSums * kRows]) {
  const WidePack<T> dy = unpacked<T>(held.dy[r]);
  const WidePack<T> x = unpacked<T>(held.x[r]);
  for (int k = 0; k < kPack<T>; ++k) {
    const Wide<T> normal = (x.values[k] - held.mean[r]) * held.rstd[r];
    const Wide<T> g = dy.values[k] * gamma[k];
    sums[kSums * r] += g * normal;
    shares.sums[0][k] += dy.values[k] * normal;
    if constexpr (kSums == 2) {
      sums[kSums * r + 1] += g;
      shares.sums[1][k] += dy.values[k];
    }
  }
}

template <class T, int kRows>
__device__ Pack<T> row_gradient(const HeldRows<T, kRows>& held, int r,
                                const Wide<T> (&gamma)[kPack<T>], Wide<T> mean_gn, Wide<T> mean_g) {
  const WidePack<T> dy = unpacked<T>(held.dy[r]);
  const WidePack<T> x = unpacked<T>(held.x[r]);
  const WidePack<T> addend = unpacked<T>(held.addend[r]);
  Pack<T> dx;
  for (int k = 0; k < kPack<T>; ++k) {
    const Wide<T> normal = (x.values[k] - held.mean[r]) * held.rstd[r];
    const Wide<T> share = dy.values[k] * gamma[k] - mean_g - normal * mean_gn;
    dx.values[k] = narrow<T>(addend.values[k] + held.rstd[r] * share);
  }
  return dx;
}

/// Rows for which a thread holds packs at a time: the more threads in a block, the fewer registers each has.
constexpr int kFewThreads = 256;
constexpr int kMostThreads = 1024;
template <int kMost>
constexpr int kRowsAtOnce = kMostThreads / kMost;

/// kSums: 2 for layer_norm, 1 for rms_norm. partial[sum][block][column]
template <class T, class G, int kSums, int kMost>
__global__ void __launch_bounds__(kMost, kMost <= kFewThreads ? 2 : 1)
    norm_backward_kernel(const NormBackward<T, G> norm, std::int64_t rows, Wide<T>* partial) {
  using W = Wide<T>;
  constexpr int kCount = kPack<T>;
  constexpr int kRows = kRowsAtOnce<kMost>;
  const int column = static_cast<int>(threadIdx.x) * kCount;
  W gamma[kCount] = {};
  if (column < norm.length) {
    const auto factors = *reinterpret_cast<const Pack<G, kCount>*>(norm.gamma + column);
    for (int k = 0; k < kCount; ++k) {
      gamma[k] = static_cast<W>(load(factors.values[k]));
    }
  }
  ColumnShares<T, kSums> shares{};
  int turn = 0;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRows; first < rows;
       first += std::int64_t{gridDim.x} * kRows) {
    const HeldRows<T, kRows> held = hold_rows<kRows>(norm, first, rows, column);
    W sums[kSums * kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      add_row(held, r, gamma, shares, sums);
    }
    sum_over_block<kMost>(sums, turn);
    turn = 1 - turn;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r < rows && column < norm.length) {
        const W mean_g = kSums == 2 ? sums[kSums * r + kSums - 1] / norm.length : 0;
        *reinterpret_cast<Pack<T>*>(norm.dx + (first + r) * norm.length + column) =
            row_gradient(held, r, gamma, sums[kSums * r] / norm.length, mean_g);
      }
    }
  }
  if (column < norm.length) {
    for (int s = 0; s < kSums; ++s) {
      W* to = partial + (std::int64_t{s} * gridDim.x + blockIdx.x) * norm.length + column;
      for (int k = 0; k < kCount; ++k) {
        to[k] = shares.sums[s][k];
      }
    }
  }
}

/// What elements add to dgamma and, if there are two sums, to dbeta, where that takes a pass of its own.
template <class T, class G, int kSums>
struct NormColumns {
  static constexpr int kCount = kPack<T>;
  NormBackward<T, G> norm;
  template <int kColumns>
  struct Held {
    Raw<T, kColumns> dy;
    Raw<T, kColumns> x;
    Wide<T> mean;
    Wide<T> rstd;
  };
  template <int kColumns>
  __device__ Held<kColumns> load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * norm.length + column;
    return {load_raw<kColumns>(norm.dy + at), load_raw<kColumns>(norm.x + at),
            norm.means == nullptr ? 0 : norm.means[row], norm.rstds[row]};
  }
  template <int kColumns, class W>
  __device__ void add(const Held<kColumns>& held, W (&sums)[kSums][kColumns]) const {
    const WidePack<T, kColumns> dy = widened<T, kColumns>(held.dy);
    const WidePack<T, kColumns> x = widened<T, kColumns>(held.x);
    for (int i = 0; i < kColumns; ++i) {
      sums[0][i] += dy.values[i] * (x.values[i] - held.mean) * held.rstd;
      if constexpr (kSums == 2) {
        sums[1][i] += dy.values[i];
      }
    }
  }
};

/// Backwards whose result is added to another have that as their last operand.
template <class T, class G, int kSums, bool kAdds>
NormBackward<T, G> operands_of(const KernelMemory& m, std::int64_t length) {
  const bool has_means = kSums == 2;
  return {input<T>(m, 0),
          input<T>(m, 1),
          input<G>(m, 2),
          has_means ? input<Wide<T>>(m, 3) : nullptr,
          input<Wide<T>>(m, has_means ? 4 : 3),
          kAdds ? input<T>(m, has_means ? 5 : 4) : nullptr,
          output<T>(m, 0),
          length};
}

template <class G, int kSums>
ColumnResults<G, kSums> column_results(const KernelMemory& m) {
  ColumnResults<G, kSums> into{};
  for (int k = 0; k < kSums; ++k) {
    into.at[k] = output<G>(m, 1 + k);
  }
  return into;
}

template <class T, class G, int kSums, bool kAdds, int kMost>
Launch one_pass(const Rows& rows, int threads) {
  auto* const kernel = &norm_backward_kernel<T, G, kSums, kMost>;
  constexpr int kRows = kRowsAtOnce<kMost>;
  const std::int64_t blocks =
      std::min(resident_blocks(kernel, threads), (rows.count + kRows - 1) / kRows);
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                auto* partial = reinterpret_cast<Wide<T>*>(m.workspace);
                kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
                    operands_of<T, G, kSums, kAdds>(m, rows.length), rows.count, partial);
                check(cudaGetLastError(), "launching a norm");
                enqueue_chunk_sums(partial, blocks, rows.length, column_results<G, kSums>(m),
                                   stream);
              },
          .workspace = {kSums * blocks * rows.length * static_cast<std::int64_t>(sizeof(Wide<T>))}};
}

/// The columns come first: dx may replace dy.
template <class T, class G, int kSums, bool kAdds>
Launch two_passes(const Rows& rows) {
  const ColumnSums<G, kSums, NormColumns<T, G, kSums>> sums(rows.count, rows.length);
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                const NormBackward<T, G> norm = operands_of<T, G, kSums, kAdds>(m, rows.length);
                sums.enqueue({norm}, column_results<G, kSums>(m), m.workspace, stream);
                enqueue_each_row(rows.count, norm, stream);
              },
          .workspace = sums.workspace()};
}

template <class T, class G, int kSums, bool kAdds>
Launch norm_backward(const Rows& rows) {
  const std::int64_t packs = (rows.length / kPack<T> + kWarp - 1) / kWarp * kWarp;
  const auto threads = static_cast<int>(std::min<std::int64_t>(packs, kMostThreads + 1));
  if (rows.count == 0 || rows.length % kPack<T> != 0 || threads > kMostThreads) {
    return two_passes<T, G, kSums, kAdds>(rows);
  }
  return threads <= kFewThreads       ? one_pass<T, G, kSums, kAdds, kFewThreads>(rows, threads)
         : threads <= 2 * kFewThreads ? one_pass<T, G, kSums, kAdds, 2 * kFewThreads>(rows, threads)
                                      : one_pass<T, G, kSums, kAdds, kMostThreads>(rows, threads);
}

template <int kSums, bool kAdds = false>
std::optional<Launch> prepare_norm_backward(const KernelRequest& request) {
  const Rows rows = rows_of(request.inputs[1].shape);
  return for_norm(request.inputs[1].dtype, request.inputs[2].dtype,
                  [&]<class T, class G>(T, G) -> std::optional<Launch> {
                    return norm_backward<T, G, kSums, kAdds>(rows);
                  });
}

}  // namespace

std::span<const KernelRow> norm_backward_kernels() {
  static constexpr std::array kRows{
      KernelRow{"layer_norm_backward", prepare_norm_backward<2>},
      KernelRow{"layer_norm_backward_add", prepare_norm_backward<2, true>},
      KernelRow{"rms_norm_backward", prepare_norm_backward<1>},
      KernelRow{"rms_norm_backward_add", prepare_norm_backward<1, true>}};
  return kRows;
}

}  // namespace trireme::cuda
