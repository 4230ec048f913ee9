// Sums over rows, by column, in a fixed order: blocks sum chunks of rows into the workspace, then chunks are summed.
#pragma once

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {

inline constexpr int kColumnThreads = 32;
inline constexpr int kRowThreads = kThreads / kColumnThreads;

/// How many parts the rows are divided into.
inline std::int64_t chunks_of(std::int64_t rows, std::int64_t columns) {
  const std::int64_t wanted =
      std::max<std::int64_t>(1, 2048 * kColumnThreads / std::max<std::int64_t>(columns, 1));
  return std::clamp<std::int64_t>(rows / 64, 1, std::min<std::int64_t>(wanted, 1024));
}

/// kSums sums at once; f(row, column, sums) adds what the element contributes.
template <class W, int kSums, class F>
__global__ void __launch_bounds__(kThreads)
    column_chunks(std::int64_t rows, std::int64_t columns, F f, W* partial) {
  __shared__ W shared[kSums][kRowThreads][kColumnThreads];
  const int lane = threadIdx.x % kColumnThreads;
  const int part = threadIdx.x / kColumnThreads;
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumnThreads + lane;
  const std::int64_t each = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t begin = each * blockIdx.y;
  const std::int64_t end = min(rows, begin + each);
  W sums[kSums] = {};
  if (column < columns) {
    for (std::int64_t row = begin + part; row < end; row += kRowThreads) {
      f(row, column, sums);
    }
  }
  for (int k = 0; k < kSums; ++k) {
    shared[k][part][lane] = sums[k];
  }
  __syncthreads();
  if (part == 0 && column < columns) {
    for (int k = 0; k < kSums; ++k) {
      W sum = 0;
      for (int p = 0; p < kRowThreads; ++p) {
        sum += shared[k][p][lane];
      }
      partial[(std::int64_t{k} * gridDim.y + blockIdx.y) * columns + column] = sum;
    }
  }
}

/// Sums the chunks and stores the sums as T.
template <class W, class T, int kSums>
struct SumChunks {
  const W* partial;
  std::int64_t chunks;
  std::int64_t columns;
  T* results[kSums];
  __device__ void operator()(std::int64_t column) const {
    for (int k = 0; k < kSums; ++k) {
      W sum = 0;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        sum += partial[(k * chunks + chunk) * columns + column];
      }
      results[k][column] = narrow<T>(sum);
    }
  }
};

template <class W>
Bytes column_workspace(std::int64_t rows, std::int64_t columns, int sums) {
  return {sums * chunks_of(rows, columns) * columns * static_cast<std::int64_t>(sizeof(W))};
}

/// The workspace holds column_workspace() bytes.
template <class T, int kSums, class F>
void enqueue_column_sums(std::int64_t rows, std::int64_t columns, const F& f,
                         const SumChunks<Wide<T>, T, kSums>& into, void* workspace,
                         cudaStream_t stream) {
  using W = Wide<T>;
  if (columns == 0) {
    return;
  }
  const std::int64_t chunks = chunks_of(rows, columns);
  auto* partial = static_cast<W*>(workspace);
  const dim3 grid(blocks_for(columns, kColumnThreads), static_cast<unsigned>(chunks));
  column_chunks<W, kSums><<<grid, kThreads, 0, stream>>>(rows, columns, f, partial);
  check(cudaGetLastError(), "launching a sum over rows");
  SumChunks<W, T, kSums> sum = into;
  sum.partial = partial;
  sum.chunks = chunks;
  sum.columns = columns;
  enqueue_each(columns, sum, stream);
}

}  // namespace trireme::cuda
