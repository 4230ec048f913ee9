// Sums over rows, by column, in a fixed order: blocks sum chunks of rows into the workspace, then chunks are summed.
#pragma once

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {

inline constexpr int kColumnThreads = 32;
inline constexpr int kRowThreads = kThreads / kColumnThreads;

/// How many parts the rows are divided into: enough blocks to fill a GPU, whether a thread sums one column or a pack.
inline std::int64_t chunks_of(std::int64_t rows, std::int64_t columns) {
  const std::int64_t wanted =
      std::max<std::int64_t>(1, (1 << 18) / std::max<std::int64_t>(columns, 1));
  return std::clamp<std::int64_t>(rows / 64, 1, std::min<std::int64_t>(wanted, 1024));
}

/// kSums sums at once, of kCount adjacent columns in a thread; f(row, column, sums) adds what these elements contribute.
/// The number of columns is a multiple of kCount.
template <class W, int kSums, int kCount, class F>
__global__ void __launch_bounds__(kThreads)
    column_chunks(std::int64_t rows, std::int64_t columns, F f, W* partial) {
  __shared__ W shared[kRowThreads][kColumnThreads * kCount];
  const int lane = threadIdx.x % kColumnThreads;
  const int part = threadIdx.x / kColumnThreads;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kColumnThreads + lane) * kCount;
  const std::int64_t each = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t begin = each * blockIdx.y;
  const std::int64_t end = min(rows, begin + each);
  W sums[kSums][kCount] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + part; row < end; row += kRowThreads) {
      f(row, column, sums);
    }
  }
  for (int k = 0; k < kSums; ++k) {
    for (int i = 0; i < kCount; ++i) {
      shared[part][lane * kCount + i] = sums[k][i];
    }
    __syncthreads();
    const std::int64_t first = std::int64_t{blockIdx.x} * kColumnThreads * kCount;
    for (int c = threadIdx.x; c < kColumnThreads * kCount; c += kThreads) {
      W sum = 0;
      for (int p = 0; p < kRowThreads; ++p) {
        sum += shared[p][c];
      }
      if (first + c < columns) {
        partial[(std::int64_t{k} * gridDim.y + blockIdx.y) * columns + first + c] = sum;
      }
    }
    __syncthreads();
  }
}

/// Where sums go.
template <class T, int kSums>
struct ColumnResults {
  T* at[kSums];
};

/// Sums the chunks: a block of warps for each 32 columns.
template <class W, class T, int kSums>
__global__ void __launch_bounds__(kColumnThreads* kColumnThreads)
    sum_chunks(const W* partial, std::int64_t chunks, std::int64_t columns,
               ColumnResults<T, kSums> results) {
  __shared__ W shared[kColumnThreads][kColumnThreads + 1];
  const int lane = threadIdx.x % kColumnThreads;
  const int part = threadIdx.x / kColumnThreads;
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumnThreads + lane;
  for (int k = 0; k < kSums; ++k) {
    W sum = 0;
    for (std::int64_t chunk = part; column < columns && chunk < chunks; chunk += kColumnThreads) {
      sum += partial[(k * chunks + chunk) * columns + column];
    }
    shared[part][lane] = sum;
    __syncthreads();
    if (part == 0 && column < columns) {
      W all = 0;
      for (int p = 0; p < kColumnThreads; ++p) {
        all += shared[p][lane];
      }
      results.at[k][column] = narrow<T>(all);
    }
    __syncthreads();
  }
}

template <class W>
Bytes column_workspace(std::int64_t rows, std::int64_t columns, int sums) {
  return {sums * chunks_of(rows, columns) * columns * static_cast<std::int64_t>(sizeof(W))};
}

/// The workspace holds column_workspace() bytes. f takes one column, or F::kCount where their number allows it.
template <class T, int kSums, class F>
void enqueue_column_sums(std::int64_t rows, std::int64_t columns, const F& f,
                         const ColumnResults<T, kSums>& results, void* workspace,
                         cudaStream_t stream) {
  using W = Wide<T>;
  if (columns == 0) {
    return;
  }
  const std::int64_t chunks = chunks_of(rows, columns);
  auto* partial = static_cast<W*>(workspace);
  const bool packed = columns % F::kCount == 0;
  const dim3 grid(blocks_for(columns, kColumnThreads * (packed ? F::kCount : 1)),
                  static_cast<unsigned>(chunks));
  if (packed) {
    column_chunks<W, kSums, F::kCount><<<grid, kThreads, 0, stream>>>(rows, columns, f, partial);
  } else {
    column_chunks<W, kSums, 1><<<grid, kThreads, 0, stream>>>(rows, columns, f, partial);
  }
  check(cudaGetLastError(), "launching a sum over rows");
  sum_chunks<W, T, kSums>
      <<<blocks_for(columns, kColumnThreads), kColumnThreads * kColumnThreads, 0, stream>>>(
          partial, chunks, columns, results);
  check(cudaGetLastError(), "launching a sum over rows");
}

}  // namespace trireme::cuda
