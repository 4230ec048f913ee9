// Small matrix products on blocks that lie in the cache, for kernels that cannot hand theirs to the library.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// A matrix by rows: element (r, c) at data[r * stride + c], or of its transpose.
template <class W>
struct Block {
  W* data;
  std::int64_t stride;
};

constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileColumns = 32;

/// A tile of the result in registers: c[4, 32] += a[4, k] b[k, 32].
template <bool kTransposedA, class W>
void multiply_tile(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t depth) {
  W sums[kTileRows][kTileColumns];
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    for (std::int64_t j = 0; j < kTileColumns; ++j) {
      sums[r][j] = c.data[r * c.stride + j];
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      const W factor = kTransposedA ? a.data[k * a.stride + r] : a.data[r * a.stride + k];
#pragma omp simd
      for (std::int64_t j = 0; j < kTileColumns; ++j) {
        sums[r][j] += factor * b.data[k * b.stride + j];
      }
    }
  }
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    for (std::int64_t j = 0; j < kTileColumns; ++j) {
      c.data[r * c.stride + j] = sums[r][j];
    }
  }
}

/// What is left at the edges.
template <bool kTransposedA, class W>
void multiply_edge(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t rows,
                   std::int64_t columns, std::int64_t depth) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const W factor = kTransposedA ? a.data[k * a.stride + r] : a.data[r * a.stride + k];
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) {
        c.data[r * c.stride + j] += factor * b.data[k * b.stride + j];
      }
    }
  }
}

/// c[rows, columns] += a[rows, depth] b[depth, columns]; a may be given as its transpose.
template <bool kTransposedA, class W>
void multiply_add(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t rows,
                  std::int64_t columns, std::int64_t depth) {
  const auto a_from = [&](std::int64_t r) {
    return Block<const W>{kTransposedA ? a.data + r : a.data + r * a.stride, a.stride};
  };
  for (std::int64_t r = 0; r < rows; r += kTileRows) {
    for (std::int64_t j = 0; j < columns; j += kTileColumns) {
      const Block<const W> b_part{b.data + j, b.stride};
      const Block<W> c_part{c.data + r * c.stride + j, c.stride};
      if (r + kTileRows <= rows && j + kTileColumns <= columns) {
        multiply_tile<kTransposedA>(a_from(r), b_part, c_part, depth);
      } else {
        multiply_edge<kTransposedA>(a_from(r), b_part, c_part, std::min(kTileRows, rows - r),
                                    std::min(kTileColumns, columns - j), depth);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
