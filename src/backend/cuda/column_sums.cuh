// Sums over rows, by column, in a fixed order: blocks sum chunks of rows into the workspace, then chunks are summed.
#pragma once

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {

inline constexpr int kColumnThreads = 16;
inline constexpr int kRowThreads = kThreads / kColumnThreads;
inline constexpr int kRowsAhead = 8;  ///< that a thread loads before it adds them

/// kSums sums at once, of kCount adjacent columns in a thread: f.load<kCount>(row, column) reads what f.add(held, sums)
/// adds; held{} adds nothing. The number of columns is a multiple of kCount.
template <class W, int kSums, int kCount, class F>
__global__ void __launch_bounds__(kThreads)
    column_chunks(std::int64_t rows, std::int64_t columns, F f, W* partial) {
  __shared__ W shared[kRowThreads][kColumnThreads * kCount];
  const int lane = threadIdx.x % kColumnThreads;
  const int part = threadIdx.x / kColumnThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kColumnThreads * kCount;
  const std::int64_t column = first + lane * kCount;
  const std::int64_t each = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t end = column < columns ? min(rows, each * (blockIdx.y + 1)) : 0;
  W sums[kSums][kCount] = {};
  for (std::int64_t row = each * blockIdx.y + part; row < end; row += kRowThreads * kRowsAhead) {
    typename F::template Held<kCount> held[kRowsAhead] = {};
#pragma unroll
    for (int a = 0; a < kRowsAhead; ++a) {
      if (row + a * kRowThreads < end) {
        held[a] = f.template load<kCount>(row + a * kRowThreads, column);
      }
    }
#pragma unroll
    for (int a = 0; a < kRowsAhead; ++a) {
      f.add(held[a], sums);
    }
  }
  for (int k = 0; k < kSums; ++k) {
    for (int i = 0; i < kCount; ++i) {
      shared[part][lane * kCount + i] = sums[k][i];
    }
    __syncthreads();
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

/// Sums the chunks: a block of warps for each 32 columns of each sum.
template <class W, class T, int kSums>
__global__ void __launch_bounds__(kWarp* kWarp)
    sum_chunks(const W* partial, std::int64_t chunks, std::int64_t columns,
               const __grid_constant__ ColumnResults<T, kSums> results) {
  __shared__ W shared[kWarp][kWarp + 1];
  const int lane = threadIdx.x % kWarp;
  const int part = threadIdx.x / kWarp;
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + lane;
  const W* own = partial + std::int64_t{blockIdx.y} * chunks * columns + column;
  W sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t chunk = part; chunk < chunks; chunk += kWarp) {
      sum += own[chunk * columns];
    }
  }
  shared[part][lane] = sum;
  __syncthreads();
  const W all = warp_sum(shared[lane][part]);  // of the chunks of column `part`
  const std::int64_t result = std::int64_t{blockIdx.x} * kWarp + part;
  if (lane == 0 && result < columns) {
    results.at[blockIdx.y][result] = narrow<T>(all);
  }
}

/// partial[sum][chunk][column]
template <class W, class T, int kSums>
void enqueue_chunk_sums(const W* partial, std::int64_t chunks, std::int64_t columns,
                        const ColumnResults<T, kSums>& results, cudaStream_t stream) {
  const dim3 grid(blocks_for(columns, kWarp), kSums);
  sum_chunks<W, T, kSums><<<grid, kWarp * kWarp, 0, stream>>>(partial, chunks, columns, results);
  check(cudaGetLastError(), "launching a sum over rows");
}

/// Sums over rows whose elements F reads; see column_chunks().
template <class T, int kSums, class F>
class ColumnSums {
 public:
  using W = Wide<T>;
  ColumnSums(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), packed_(columns % F::kCount == 0) {
    const std::int64_t wide = column_blocks();
    const std::int64_t resident =
        packed_ ? resident_blocks(&column_chunks<W, kSums, F::kCount, F>, kThreads)
                : resident_blocks(&column_chunks<W, kSums, 1, F>, kThreads);
    const std::int64_t least = kRowThreads * kRowsAhead;
    chunks_ = std::clamp<std::int64_t>(resident / wide, 1, std::max<std::int64_t>(rows / least, 1));
  }

  [[nodiscard]] Bytes workspace() const {
    return {kSums * chunks_ * columns_ * static_cast<std::int64_t>(sizeof(W))};
  }
  void enqueue(const F& f, const ColumnResults<T, kSums>& results, void* workspace,
               cudaStream_t stream) const {
    if (columns_ == 0) {
      return;
    }
    auto* partial = static_cast<W*>(workspace);
    const dim3 grid(static_cast<unsigned>(column_blocks()), static_cast<unsigned>(chunks_));
    if (packed_) {
      column_chunks<W, kSums, F::kCount>
          <<<grid, kThreads, 0, stream>>>(rows_, columns_, f, partial);
    } else {
      column_chunks<W, kSums, 1><<<grid, kThreads, 0, stream>>>(rows_, columns_, f, partial);
    }
    check(cudaGetLastError(), "launching a sum over rows");
    enqueue_chunk_sums<W, T, kSums>(partial, chunks_, columns_, results, stream);
  }

 private:
  [[nodiscard]] std::int64_t column_blocks() const {
    return blocks_for(columns_, kColumnThreads * (packed_ ? F::kCount : 1));
  }

  std::int64_t rows_;
  std::int64_t columns_;
  bool packed_;
  std::int64_t chunks_ = 1;
};

}  // namespace trireme::cuda
